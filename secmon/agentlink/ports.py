"""Sockets that listen for agents and syslog senders."""

import socket

from secmon.agentlink.settings import LinkSettings
from secmon.config.remote import RemoteBlock

BACKLOG = 4096
DATAGRAM_BUFFER = 8 << 20
"""Bytes of datagrams that may wait in the kernel, as far as it allows."""


class Ports:
    """The sockets of the ``remote`` sections, bound while the process still has the right to do so."""

    def __init__(self, settings: LinkSettings) -> None:
        """Raises OSError."""
        self.tcp: list[tuple[RemoteBlock, socket.socket]] = []
        self.udp: list[tuple[RemoteBlock, socket.socket]] = []
        try:
            for block in settings.blocks:
                if "tcp" in block.protocols:
                    made = listen_tcp(block.host, block.port, keepalive=settings.tcp_keepalive)
                    self.tcp.append((block, made))
                if "udp" in block.protocols:
                    self.udp.append((block, bind_udp(block.host, block.port)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for _, each in (*self.tcp, *self.udp):
            each.close()


def listen_tcp(host: str, port: int, *, keepalive: tuple[int, int, int]) -> socket.socket:
    """A listening socket, of both families for ``::``. Raises OSError, which names the port.

    ``keepalive``: idle seconds, interval, count; accepted connections have them from it.
    """
    listener = _socket(host, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        for option, value in zip(options, keepalive, strict=True):
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
        _bind(listener, host, port)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def bind_udp(host: str, port: int) -> socket.socket:
    """A socket for datagrams, of both families for ``::``. Raises OSError, which names the port."""
    endpoint = _socket(host, socket.SOCK_DGRAM)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, DATAGRAM_BUFFER)
        _bind(endpoint, host, port)
    except BaseException:
        endpoint.close()
        raise
    return endpoint


def _bind(made: socket.socket, host: str, port: int) -> None:
    try:
        made.bind((host, port))
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"port {port}") from error


def _socket(host: str, kind: socket.SocketKind) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    made.setblocking(False)
    if ":" in host:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return made
