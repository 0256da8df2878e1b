"""Where the processes of a node log: the daemon log of the installation, and the terminal in the foreground."""

import logging
import os
import sys
from pathlib import Path

from secmon.common.log import setup_daemon_log
from secmon.common.paths import Paths
from secmon.daemons.privileges import find_account, is_root, share

_FILES = ("ossec.log", "cluster.log")


def log_daemon(root: Path, process: str) -> None:
    """Log of the process called ``process``, such as ``secmon-apid``, of the installation ``root``."""
    _open_files(root)
    setup_daemon_log(Paths(root), process)


def log_supervisor(root: Path, *, terminal: bool) -> None:
    """Log of the supervisor; on the terminal too when it runs in the foreground."""
    log_daemon(root, "secmon")
    if terminal:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s: %(message)s", "%Y/%m/%d %H:%M:%S"))
        logging.getLogger().addHandler(handler)


def _open_files(root: Path) -> None:
    """Create the files while still root, so that the service user can append to them afterwards."""
    account = find_account()
    for name in _FILES if is_root() else ():
        path = Paths(root).logs / name
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o660))
        share(path, 0o660, account)
