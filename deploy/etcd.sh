#!/bin/sh
# Runs a member of etcd. NAME: of this member, by which the others reach it. MEMBERS: the names of all.
set -eu
ring=
for member in $MEMBERS; do
  ring="${ring:+$ring,}$member=http://$member:2380"
done
exec etcd --name "$NAME" --data-dir "${DATA_DIR:-/var/lib/etcd}" --log-level warn \
  --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls "http://$NAME:2379" \
  --listen-peer-urls http://0.0.0.0:2380 --initial-advertise-peer-urls "http://$NAME:2380" \
  --initial-cluster "$ring" --initial-cluster-state new
