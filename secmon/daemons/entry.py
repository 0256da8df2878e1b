"""``python -m secmon.daemons.entry NAME --root DIR --factory MODULE:FUNCTION``: one daemon process.

What the supervisor's fork server runs in each child; operators use ``secmon start``. Nothing secret is taken from the
arguments.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.daemon import EXIT_START, find_factory
from secmon.daemons.daemon_host import run_daemon
from secmon.daemons.process_log import LogSettings, set_up_process_log


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and run; returns the process status."""
    parser = argparse.ArgumentParser(prog="secmon-daemon", description=__doc__)
    parser.add_argument("name", help="full name of the daemon, such as secmon-apid")
    parser.add_argument("--root", type=Path, required=True, help="installation folder")
    parser.add_argument("--factory", required=True, help="module:function that builds the daemon")
    parser.add_argument("--user", help="service user to become before serving")
    parser.add_argument("--needs-root", action="store_true", help="build the daemon before becoming the user")
    parser.add_argument("--channel-fd", type=int, help="inherited socket to the supervisor")
    parser.add_argument("--stop-seconds", type=float, default=30.0, help="bound of a clean stop")
    parser.add_argument("--log-level", default="info", choices=["info", "debug", "debug2"], help="detail of the log")
    parser.add_argument("--log-formats", default="plain", help="plain, json or both with a comma")
    parser.add_argument("--log-terminal", action="store_true", help="log on standard error too")
    parser.add_argument("--node", default="", help="name of the node in the cluster's log")
    options = parser.parse_args(arguments)
    channel = ChildChannel(options.channel_fd) if options.channel_fd is not None else None
    if channel is not None and channel.orphaned:
        return EXIT_START
    settings = LogSettings(
        level=options.log_level,
        formats=tuple(options.log_formats.split(",")),
        node=options.node,
        terminal=options.log_terminal,
    )
    log_counters = set_up_process_log(options.root, options.name, settings)
    return run_daemon(
        options.name,
        options.root,
        lambda context: find_factory(options.factory)(context),
        user=options.user,
        needs_root=options.needs_root,
        channel=channel,
        stop_seconds=options.stop_seconds,
        log_counters=log_counters,
    )


if __name__ == "__main__":
    sys.exit(main())
