# One image for every node, a small one for the load balancer, and one for the database of compose.ha.yaml.
FROM python:3.11-slim AS build
RUN python -m venv --without-pip /opt/venv
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.lock ./
RUN pip --python /opt/venv/bin/python install --require-hashes -r requirements.lock
# The compiler of setup.py; it is not part of the image of a node.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml setup.py README.md ./
COPY secmon ./secmon
# The web console; Node.js, which builds it, is no part of the image of a node.
COPY scripts/console.sh ./scripts/
COPY console ./console
RUN python -m venv /opt/node && scripts/console.sh /opt/node
COPY ruleset ./ruleset
RUN pip --python /opt/venv/bin/python install --no-deps . \
 && /opt/venv/bin/python -I -c 'from secmon.engine.matching.implementation import FORM; assert FORM == "compiled", FORM'

FROM python:3.11-slim AS node
# A fixed id: volumes outlive images, and the next base image may assign other ids.
RUN groupadd --gid 1516 secmon \
 && useradd --uid 1516 --gid secmon --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin secmon \
 && install -d -m 750 -g secmon /var/lib/secmon
COPY --from=build /opt/venv /opt/venv
COPY deploy/entrypoint.sh deploy/healthcheck.py /usr/local/lib/secmon/
ENV PATH=/opt/venv/bin:$PATH SECMON_ROOT=/var/lib/secmon PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/secmon
EXPOSE 55000 1514 1515 1516 1517
# The health check is in compose.yaml: image formats other than Docker's do not support it.
ENTRYPOINT ["sh", "/usr/local/lib/secmon/entrypoint.sh"]

# PostgreSQL under Patroni, and etcd: for compose.ha.yaml.
FROM debian:bookworm-slim AS database
# No cluster of PostgreSQL at the installation: Patroni makes one.
RUN mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
 && apt-get update && apt-get install -y --no-install-recommends etcd-server patroni postgresql-15 python3-etcd \
 && rm -rf /var/lib/apt/lists/*
COPY deploy/database.sh deploy/make-record.sh deploy/etcd.sh deploy/patroni.yml /usr/local/lib/secmon/
RUN install -d -m 700 -o etcd -g etcd /var/lib/etcd
EXPOSE 5432 8008 2379 2380
ENTRYPOINT ["sh", "/usr/local/lib/secmon/database.sh"]

FROM python:3.11-slim AS balancer
RUN apt-get update && apt-get install -y --no-install-recommends haproxy && rm -rf /var/lib/apt/lists/*
COPY deploy/haproxy.cfg /etc/haproxy/haproxy.cfg
USER haproxy
EXPOSE 55000 1514 1515
ENTRYPOINT ["haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
