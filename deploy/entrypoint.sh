#!/bin/sh
# Makes the node's folder on the first start, then runs it in the foreground.
# NODE_NAME, NODE_TYPE, MASTER and CLUSTER_NAME say what to make; the cluster key is read from a file, never from the
# environment or the command line.
set -eu
if [ ! -e "$SECMON_ROOT/etc/ossec.conf" ]; then
  set -- init "$SECMON_ROOT" --node-name "$NODE_NAME" --type "$NODE_TYPE" --cluster-name "${CLUSTER_NAME:-secmon}" \
    --key-file "${CLUSTER_KEY_FILE:-/run/secrets/cluster_key}"
  [ "$NODE_TYPE" = master ] || set -- "$@" --master "$MASTER"
  if [ -n "${ADMIN_PASSWORD_FILE:-}" ] && [ "$NODE_TYPE" = master ]; then
    set -- "$@" --admin-password-file "$ADMIN_PASSWORD_FILE"
  fi
  secmon "$@"
fi
exec secmon start --root "$SECMON_ROOT"
