"""A host with the service user, for commands under test: their own mount namespace, with files of their own in /etc.

Nothing is installed and nothing outside of the namespace changes. Needs root.
"""

import functools
import os
import stat
import subprocess
import sys
from pathlib import Path

UID = 1516
"""User and group id of the service user, as in the Dockerfile."""

_SCRIPT = """
set -eu
folder=$1 closed=$2; shift 2
mount -t tmpfs none "$folder"
{ grep -v '^secmon:' /etc/passwd; echo "secmon:x:UID:UID::/nonexistent:/usr/sbin/nologin"; } >"$folder/passwd"
{ grep -v '^secmon:' /etc/group; echo "secmon:x:UID:"; } >"$folder/group"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/group" /etc/group
if [ -n "$closed" ]; then  # the interpreter lies in a folder that only root may enter
  mkdir "$folder/upper" "$folder/work" "$folder/merged"
  mount -t overlay -o "lowerdir=$closed,upperdir=$folder/upper,workdir=$folder/work" none "$folder/merged"
  chmod 755 "$folder/merged"
  mount --bind "$folder/merged" "$closed"
fi
exec "$@"
""".replace("UID", str(UID))


@functools.cache
def usable() -> bool:
    """Whether this process may make such namespaces."""
    if os.geteuid() != 0:
        return False
    probe = [*prefix(), "setpriv", f"--reuid={UID}", "--clear-groups", sys.executable, "-c", "import secmon"]
    return subprocess.run(probe, capture_output=True, cwd="/", check=False).returncode == 0


def prefix() -> list[str]:
    """What runs a command on a host that has the service user ``secmon``."""
    return ["unshare", "--mount", "sh", "-c", _SCRIPT, "secmon-host", "/mnt", _closed()]


def as_service_user() -> list[str]:
    """What runs a command on such a host, as the service user itself."""
    return [*prefix(), "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]


def _closed() -> str:
    """The first folder on the way to the interpreter that others may not enter; empty when there is none."""
    way = Path(os.__file__).resolve()
    closed = [step for step in reversed(way.parents) if not step.stat().st_mode & stat.S_IXOTH]
    return str(closed[0]) if closed else ""
