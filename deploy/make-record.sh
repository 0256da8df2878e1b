#!/bin/sh
# Makes the role and the empty database of secmon in a new cluster of PostgreSQL. Patroni calls it with their address.
set -eu
psql -q -v ON_ERROR_STOP=1 "$1" <<SQL
CREATE ROLE secmon LOGIN PASSWORD '$(cat "$STORE_PASSWORD_FILE")';
CREATE DATABASE record OWNER secmon;
SQL
