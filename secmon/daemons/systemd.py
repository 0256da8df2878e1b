"""Telling systemd how the start goes (sd_notify's datagram)."""

import os
import socket


def notify(state: str) -> None:
    """Send ``state``, such as ``READY=1``, when a service manager listens; else do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(state.encode())
    except OSError:
        return  # systemd has closed the socket; the service does not depend on it
