"""Channels: to the node's own socket, and what their closing does to those who use them."""

import asyncio
import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grpc import aio

from secmon.cluster.rpc.credentials import MAX_MESSAGE_BYTES
from secmon.common.background import cancelled_by_caller
from secmon.common.errors import ConfigError, SecmonError

MAX_SOCKET_PATH = 107
"""Bytes of a unix socket's path that the kernel takes."""

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)


class ChannelClosed(Exception):
    """Another task has closed the channel, before the call or under it."""


@contextmanager
def closable() -> Iterator[None]:
    """Around calls on a channel that another task may close. Raises ChannelClosed when it does.

    gRPC cancels the calls under way, which looks like a cancellation of the task; the latter passes through.
    """
    try:
        yield
    except asyncio.CancelledError:
        if cancelled_by_caller():
            raise
        raise ChannelClosed("the channel was closed") from None
    except aio.UsageError as error:
        raise ChannelClosed(str(error)) from None


def local_address(socket: Path) -> str:
    """gRPC's name of ``socket``. Raises ConfigError when the installation folder's path is too long for the kernel."""
    path = str(socket.absolute())
    if len(path.encode()) > MAX_SOCKET_PATH:
        raise ConfigError(path, "installation folder", path, f"at most {MAX_SOCKET_PATH} bytes with the socket's name")
    return f"unix:{path}"


def local_channel(socket: Path) -> aio.Channel:
    """To the cluster daemon of this node. Connects when used, and again after the daemon has restarted."""
    quick = (*OPTIONS, ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 500))
    return aio.insecure_channel(local_address(socket), options=quick)


def local_failure(socket: Path) -> SecmonError:
    """Why no call gets through to the cluster daemon of this node: it does not run (3012), or does not answer (3020).

    A daemon that hangs still has its socket, and the kernel takes connections for it.
    """
    with sockets.socket(sockets.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(socket.absolute()))
        except BlockingIOError:
            pass  # so many wait already that the kernel takes no more for it
        except OSError:
            return SecmonError(3012)
    return SecmonError(3020, "the cluster daemon of this node")
