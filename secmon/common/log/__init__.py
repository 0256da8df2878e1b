"""Logs of the daemons: ``logs/ossec.log``, ``logs/ossec.json`` and ``logs/cluster.log``."""

from secmon.common.log.appendfile import AppendFile, WriteTrouble
from secmon.common.log.daemon import DaemonLog, cluster_logger, setup_daemon_log
from secmon.common.log.text import escape

__all__ = ["AppendFile", "DaemonLog", "WriteTrouble", "cluster_logger", "escape", "setup_daemon_log"]
