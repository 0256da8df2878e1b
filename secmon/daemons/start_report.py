"""Reports of a supervisor to its starter: the process at the other end of its channel, and the service manager."""

import os
import socket

from secmon.daemons.child_channel import ChildChannel


class StartReport:
    """How the start went, and later restarts and the stop. Without a listener nothing is sent."""

    def __init__(self, channel: ChildChannel | None) -> None:
        self._channel = channel

    def ready(self) -> None:
        """The node runs."""
        notify("READY=1")
        if self._channel is not None:
            self._channel.ready()

    def failed(self, reason: str) -> None:
        """The node does not run."""
        if self._channel is not None:
            self._channel.failed(reason)

    def restarting(self) -> None:
        """A restart begins. A service manager waits for its end."""
        notify("RELOADING=1")

    def restarted(self) -> None:
        """The restart has ended."""
        notify("READY=1")

    def stopping(self) -> None:
        """The node stops."""
        notify("STOPPING=1")


def notify(state: str) -> None:
    """Send ``state`` to the service manager that listens at ``NOTIFY_SOCKET`` (sd_notify(3)), if there is one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(state.encode())
    except OSError:
        return  # the service manager does not listen any more; the node does not depend on it
