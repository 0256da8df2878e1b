"""Root saves and restores an installation of the service user: rights, and owners of what is restored."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import serviceuser

_SCRIPT = """
set -eu
cd "$1"; secmon="$2 -m secmon.cli"
$secmon init n >/dev/null
mkdir -m 700 closed
ssh-keygen -q -t ed25519 -N '' -f closed/key
$secmon backup closed --root n --public-key closed/key.pub >/dev/null
stat -c '%a %U' closed/*.secmon
$secmon restore closed/*.secmon --root r --private-key closed/key >/dev/null
for each in n r; do (cd $each; find . -printf '%p %m %u %g\\n' | sort >../$each.owners); done
diff n.owners r.owners
"""


@pytest.mark.root
@pytest.mark.skipif(not serviceuser.usable(), reason="needs root, and namespaces with the service user")
def test_owners_are_those_of_the_installation_that_was_saved() -> None:
    """The backup goes into a folder that only root may enter; both folders are below one that root alone can change."""
    folder = Path(tempfile.mkdtemp(prefix="secmon-test-", dir="/opt"))
    folder.chmod(0o755)
    try:
        command = [*serviceuser.prefix(), "sh", "-c", _SCRIPT, "script", str(folder), sys.executable]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == "600 root\n"
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
