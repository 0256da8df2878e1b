#!/bin/sh
# Creates the node's folder on the first start, then runs the node in the foreground.
# NODE_NAME, NODE_TYPE, MASTER and CLUSTER_NAME set the role of the node. Secrets are read from files, never from the
# environment or the command line. Starts as root to read them and to give the folder to the user secmon; the daemons
# run as that user.
set -eu
if [ ! -e "$SECMON_ROOT/etc/ossec.conf" ]; then
  set -- init "$SECMON_ROOT" --type "$NODE_TYPE" --node-name "$NODE_NAME" --cluster-name "${CLUSTER_NAME:-secmon}" \
    --master "${MASTER:-$(cat /etc/hostname)}" --key-file "${CLUSTER_KEY_FILE:-/run/secrets/cluster_key}"
  if [ "$NODE_TYPE" = master ]; then
    set -- "$@" --admin-password-file "${ADMIN_PASSWORD_FILE:-/run/secrets/admin_password}"
  fi
  # Output is discarded: generated passwords do not belong in the log of a container.
  secmon "$@" >/dev/null
fi
exec secmon start --root "$SECMON_ROOT"
