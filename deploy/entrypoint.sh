#!/bin/sh
# Creates the node's folder on the first start, then runs the node in the foreground.
# NODE_NAME, NODE_TYPE, MASTER and CLUSTER_NAME set the role of the node. STORE: URL of the store of record, which the
# first master fills (docs/high-availability.md). Secrets are read from files, never from the
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
if [ -n "${STORE:-}" ] && ! grep -q '<store>' "$SECMON_ROOT/etc/ossec.conf"; then
  install -m 640 -o secmon -g secmon "${STORE_PASSWORD_FILE:-/run/secrets/store_password}" "$SECMON_ROOT/etc/store.password"
  if [ "$NODE_TYPE" = master ]; then
    touch "$SECMON_ROOT/etc/store.empty"
  fi
  url=$(printf %s "$STORE" | sed 's/&/\&amp;/g; s/[&|\]/\\&/g')
  sed -i "s|</cluster>|<store>$url</store><store_password_file>etc/store.password</store_password_file></cluster>|" \
    "$SECMON_ROOT/etc/ossec.conf"
fi
if [ -e "$SECMON_ROOT/etc/store.empty" ]; then
  # Again and again until the database is there; status tells that an attempt before a restart has done it.
  until secmon store migrate --root "$SECMON_ROOT" || secmon store status --root "$SECMON_ROOT" >/dev/null; do sleep 2; done
  rm "$SECMON_ROOT/etc/store.empty"
fi
exec secmon start --root "$SECMON_ROOT"
