#!/usr/bin/env bash
# Creates the virtual environment DIR with Python 3.11 or newer: scripts/venv.sh DIR
# PYTHON names another interpreter. Packages that Debian and Ubuntu lack by default are installed if root runs this script;
# other users get the command to install them.
set -euo pipefail

folder=$1

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Installs the packages given as root; otherwise prints the command and ends.
need() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $* ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "Missing here: $*. On Debian or Ubuntu run: sudo apt-get install $*" >&2
    exit 1
  fi
}

find_python() {
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if suits "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}

python=$(find_python)
if [ -z "$python" ]; then
  if [ -n "${PYTHON:-}" ]; then
    echo "$PYTHON is not Python 3.11 or newer" >&2
    exit 1
  fi
  # The distribution's own Python if it is new enough, otherwise the newest that it also packages.
  if command -v python3 >/dev/null; then need python3.11 python3.11-venv; else need python3 python3-venv; fi
  python=$(find_python)
  [ -n "$python" ] || { echo "No Python 3.11 or newer was found; set PYTHON=/path/to/python3.12" >&2; exit 1; }
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  need "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
fi
echo "Creating $folder with $("$python" -V) ..."
"$python" -m venv "$folder"
