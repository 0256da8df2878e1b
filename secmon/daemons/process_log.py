"""The log of a process of the node: the daemon log of the installation, and the terminal in the foreground."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from secmon.common.counters import Counters
from secmon.common.logfile import setup_daemon_log
from secmon.common.paths import Paths


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """``level``: ``info``, ``debug`` or ``debug2``; ``formats``: ``plain``, ``json``; ``node``: name in cluster.log.

    ``terminal``: on standard error too.
    """

    level: str = "info"
    formats: tuple[str, ...] = ("plain",)
    node: str = ""
    terminal: bool = False


def set_up_process_log(root: Path, process: str, settings: LogSettings) -> Counters:
    """Set up the log of the process ``process``, such as ``secmon-apid``; returns the counters of what goes wrong."""
    counters = Counters()
    counters.add("log.write_errors", 0)  # shown from the start
    setup_daemon_log(Paths(root), process, settings.level, settings.formats, counters=counters, node=settings.node)
    if settings.terminal:
        handler = logging.StreamHandler(sys.stderr)
        line = f"%(asctime)s {process}: %(levelname)s: %(message)s"
        handler.setFormatter(logging.Formatter(line, "%Y/%m/%d %H:%M:%S"))
        logging.getLogger().addHandler(handler)
    return counters
