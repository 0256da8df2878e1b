"""Logs of the daemons: ``logs/ossec.log``, ``logs/ossec.json`` and ``logs/cluster.log``."""

from secmon.common.logfile.append_file import AppendFile, WriteTrouble
from secmon.common.logfile.daemon_log import DaemonLog, cluster_logger, setup_daemon_log
from secmon.common.logfile.text import escape

__all__ = ["AppendFile", "DaemonLog", "WriteTrouble", "cluster_logger", "escape", "setup_daemon_log"]
