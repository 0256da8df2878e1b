"""secmon-csyslogd: sends alerts to syslog receivers."""

import socket
from functools import partial

from secmon.common.clock import SystemClock
from secmon.config.outputs import load_outputs
from secmon.daemons.daemon import Context
from secmon.daemons.output_daemon import OutputDaemon
from secmon.outputs.delivery import Delivery
from secmon.outputs.syslog.syslog_output import SyslogReceiver

NAME = "secmon-csyslogd"


def build(context: Context) -> OutputDaemon:
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    sections = load_outputs(context.paths).syslog
    host, clock = socket.getfqdn(), SystemClock()
    receivers = [SyslogReceiver(one, root=context.paths.root, host=host, clock=clock) for one in sections]
    active = {"csyslog": [one.active_configuration() for one in sections]}
    return OutputDaemon(NAME, context.paths, [(one.name, partial(Delivery, one)) for one in receivers], active)
