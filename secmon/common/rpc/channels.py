"""Channels and servers on the node's own socket."""

from pathlib import Path

from grpc import aio

from secmon.common.errors import ConfigError
from secmon.common.rpc.credentials import MAX_MESSAGE_BYTES

MAX_SOCKET_PATH = 107
"""Bytes of a unix socket's path that the kernel takes."""

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)


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
