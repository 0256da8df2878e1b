# One image for every node; a second, small one for the load balancer in front.
FROM python:3.11-slim AS node
RUN useradd --system --no-create-home --shell /usr/sbin/nologin secmon
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY secmon ./secmon
RUN /opt/venv/bin/pip install --no-cache-dir --no-deps . && rm -rf /src
COPY deploy/entrypoint.sh deploy/healthcheck.py /usr/local/lib/secmon/
ENV PATH=/opt/venv/bin:$PATH SECMON_ROOT=/var/lib/secmon PYTHONUNBUFFERED=1
WORKDIR /
VOLUME /var/lib/secmon
EXPOSE 55000 1516 1517
HEALTHCHECK --interval=5s --timeout=4s --start-period=20s --retries=3 \
  CMD ["python", "/usr/local/lib/secmon/healthcheck.py"]
ENTRYPOINT ["sh", "/usr/local/lib/secmon/entrypoint.sh"]

FROM python:3.11-slim AS balancer
RUN apt-get update && apt-get install -y --no-install-recommends haproxy && rm -rf /var/lib/apt/lists/*
COPY deploy/haproxy.cfg /etc/haproxy/haproxy.cfg
EXPOSE 55000
ENTRYPOINT ["haproxy", "-db", "-f", "/etc/haproxy/haproxy.cfg"]
