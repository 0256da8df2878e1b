#!/bin/sh
# Runs PostgreSQL under Patroni, which agrees with the other hosts through etcd on which of them is the primary.
# NAME: of this host for the others. ETCD: addresses of etcd, as "etcd1:2379","etcd2:2379". Secrets are read from files,
# by root; PostgreSQL runs as the user postgres.
set -eu
secrets=${SECRETS_DIR:-/run/secrets} run=${RUN_DIR:-/run/patroni} data=${DATA_DIR:-/var/lib/postgresql/data}
here=$(dirname "$(readlink -f "$0")")
umask 077
for name in database_password store_password; do
  case $(cat "$secrets/$name") in
    *[!A-Za-z0-9]* | '') echo "$secrets/$name: letters and digits only" >&2; exit 1 ;;
  esac
done
mkdir -p "$run" "$data"
cp "$secrets/store_password" "$run/store_password"
{
  echo "s|@DATABASE_PASSWORD@|$(cat "$secrets/database_password")|g"
  echo "s|@NAME@|$NAME|g; s|@ETCD@|$ETCD|g; s|@HERE@|$here|g; s|@RUN@|$run|g; s|@DATA@|$data|g"
  echo "s|@BIN@|$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres)")|g"
} >"$run/words.sed"
sed -f "$run/words.sed" "$here/patroni.yml" >"$run/patroni.yml"
rm "$run/words.sed"
chown -R postgres:postgres "$run"
chown postgres:postgres "$data"
export STORE_PASSWORD_FILE="$run/store_password"
exec setpriv --reuid=postgres --regid=postgres --init-groups patroni "$run/patroni.yml"
