"""Where the processes of a node log: the daemon log of the installation, and the terminal in the foreground."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from secmon.common.log import setup_daemon_log
from secmon.common.paths import Paths


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """``level``: ``info``, ``debug`` or ``debug2``; ``formats``: ``plain``, ``json``; ``node``: name in cluster.log."""

    level: str = "info"
    formats: tuple[str, ...] = ("plain",)
    node: str = ""


def log_process(root: Path, process: str, settings: LogSettings, *, terminal: bool = False) -> None:
    """Log of the process called ``process``, such as ``secmon-apid``; ``terminal``: on standard error too."""
    setup_daemon_log(Paths(root), process, settings.level, settings.formats, node=settings.node)
    if terminal:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s: %(message)s", "%Y/%m/%d %H:%M:%S"))
        logging.getLogger().addHandler(handler)
