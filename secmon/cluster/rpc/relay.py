"""The TCP port of a gRPC server. gRPC cannot count connections, so they are accepted here and relayed to it.

gRPC listens on a unix socket whose file is removed at once: only this process can connect to it. The relay's end of
each connection is bound to an abstract name that carries the client's address, which gRPC reports as its peer; see
``credentials.address_of``. A connection is relayed when its first TLS record has come: a silent one costs a descriptor.
"""

import asyncio
import itertools
import logging
import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import grpc
from grpc import aio

from secmon.cluster.rpc.credentials import HANDSHAKE_SECONDS, PEER_PREFIX
from secmon.common.accept.acceptor import Accepted, Acceptor
from secmon.common.accept.limiter import AcceptLimits, ConnectionLimiter, Slot
from secmon.common.accept.listening import bind_sockets, within_descriptors
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.clusterd.relay")

FIRST_BYTES_SECONDS = 10.0
"""Time for a connection to begin with TLS."""
TLS_HANDSHAKE, TLS_HEADER_BYTES, TLS_RECORD_BYTES = 22, 5, 16_384
"""Type of the first record of a connection, and sizes of any (RFC 8446, 5.1)."""
LINGER_SECONDS = 5.0
"""Time for a peer to take what waits for it when the other end is gone."""
READ_BYTES = 65_536
NODE_LIMITS = AcceptLimits(total=512, reserved=256, per_address=128, per_known_address=256)
DESCRIPTORS = 3
"""That a relayed connection takes: the client's, and both ends of the one to gRPC."""
_numbers = itertools.count()


class RelayedPort:
    """Connections to ``host:port`` for ``server``. Built before the server starts; then :meth:`start`."""

    def __init__(
        self,
        server: aio.Server,
        credentials: grpc.ServerCredentials,
        *,
        host: str,
        port: int,
        setting: str,
        limiter: ConnectionLimiter,
        trusted_after: float | None = None,
        ends_after: float | None = None,
    ) -> None:
        """Bind. ``trusted_after``: seconds after which a connection has passed TLS with a certificate, as gRPC ends
        those that have not. ``ends_after``: seconds that any connection may last.

        Raises 2010 with ``setting``, option and file, for a port that cannot be taken.
        """
        try:
            self._sockets = bind_sockets(_both_families(host), port)
        except SecmonError as error:
            raise SecmonError(error.code, f"{error.extra}; change {setting}") from None
        self.port: int = self._sockets[0].getsockname()[1]
        self._backend = _listen_privately(server, credentials)
        self._limiter, self._trusted_after, self._ends_after = limiter, trusted_after, ends_after
        self._acceptor = Acceptor(self._sockets, limiter, self._serve, log)
        self._relayed: set[_RelayedConnection] = set()
        self._emptied = asyncio.Event()

    @classmethod
    def for_nodes(
        cls,
        server: aio.Server,
        credentials: grpc.ServerCredentials,
        *,
        host: str,
        port: int,
        setting: str,
        clock: Clock,
        counters: Counters,
        is_known: Callable[[str], bool],
    ) -> "RelayedPort":
        """The port where nodes with certificates connect. ``is_known`` knows their addresses. Raises 2010."""
        limits = within_descriptors(NODE_LIMITS, each=DESCRIPTORS, share=0.75)
        limiter = ConnectionLimiter("cluster.peers", limits, log=log, clock=clock, counters=counters, is_known=is_known)
        return cls(
            server, credentials, host=host, port=port, setting=setting, limiter=limiter,
            trusted_after=HANDSHAKE_SECONDS + 5.0,
        )  # fmt: skip

    def start(self) -> None:
        """Accept connections."""
        self._acceptor.start()

    def close(self) -> None:
        """Accept nothing new; connections go on."""
        self._acceptor.close()
        for listener in self._sockets:
            listener.close()

    async def emptied(self) -> None:
        """Wait until the other ends have closed all connections."""
        while self._relayed:
            self._emptied.clear()
            await self._emptied.wait()

    async def stop(self) -> None:
        """End all connections. To be called when gRPC has finished its calls."""
        self.close()
        await self._acceptor.finish(0)
        for each in list(self._relayed):
            each.abort()
        os.close(self._backend)

    async def _serve(self, connection: socket.socket, accepted: Accepted) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(FIRST_BYTES_SECONDS):
            first = await _first_record(connection)
        if not first:
            return
        self._limiter.begun(accepted.slot)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        relayed = _RelayedConnection(partial(self._ended, accepted.slot))
        inside = await self._connect(accepted.address)
        try:
            await loop.connect_accepted_socket(lambda: relayed.inside, inside)
            transport, _ = await loop.connect_accepted_socket(lambda: relayed.outside, connection)
        except BaseException:  # its place was given to another: gRPC would keep its end until a time limit
            relayed.abort()
            raise
        accepted.transport = transport
        self._relayed.add(relayed)
        relayed.begin(first)
        if self._trusted_after is not None:
            relayed.timers.append(loop.call_later(self._trusted_after, self._trust, accepted.slot))
        if self._ends_after is not None:
            relayed.timers.append(loop.call_later(self._ends_after, relayed.abort))

    async def _connect(self, address: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            made.bind(f"\0{PEER_PREFIX}{os.getpid()}/{next(_numbers)}/{address}")
            await asyncio.get_running_loop().sock_connect(made, f"/proc/self/fd/{self._backend}")
        except BaseException:
            made.close()
            raise
        return made

    def _trust(self, slot: Slot) -> None:
        self._limiter.authenticated(slot)
        slot.busy = True

    def _ended(self, slot: Slot, relayed: "_RelayedConnection") -> None:
        self._relayed.discard(relayed)
        self._emptied.set()
        self._limiter.release(slot)


async def _first_record(connection: socket.socket) -> bytes:
    """What has come when it holds a whole TLS record; nothing if the peer is gone or speaks another protocol."""
    received, missing = b"", TLS_HEADER_BYTES
    while missing > 0:
        more = await asyncio.get_running_loop().sock_recv(connection, READ_BYTES)
        received += more
        length = int.from_bytes(received[3:TLS_HEADER_BYTES])
        if not more or received[0] != TLS_HANDSHAKE or length > TLS_RECORD_BYTES:
            return b""
        missing = TLS_HEADER_BYTES + length - len(received)
    return received


def _both_families(host: str) -> str:
    """The default ``0.0.0.0`` takes IPv6 connections too, where the host has IPv6."""
    return "::" if host == "0.0.0.0" and socket.has_dualstack_ipv6() else host


def _listen_privately(server: aio.Server, credentials: grpc.ServerCredentials) -> int:
    """Have ``server`` listen on a socket without a file; a descriptor that leads to it."""
    with tempfile.TemporaryDirectory(prefix="secmon-") as folder:
        path = Path(folder) / "s"
        server.add_secure_port(f"unix:{path}", credentials)
        return os.open(path, os.O_PATH | os.O_CLOEXEC)


class _RelayedConnection:
    """Two ends; when one is lost, the other is closed."""

    def __init__(self, ended: "partial[None]") -> None:
        self.outside, self.inside = _RelayEnd(self), _RelayEnd(self)
        self.outside.other, self.inside.other = self.inside, self.outside
        self.timers: list[asyncio.TimerHandle] = []
        self._ended = ended
        self._open = 2

    def begin(self, first: bytes) -> None:
        if self.inside.lost or self.outside.lost:
            self.abort()
        else:
            self.inside.transport.write(first)

    def abort(self) -> None:
        for end in (self.outside, self.inside):
            if end.connected:
                end.transport.abort()

    def lost(self, end: "_RelayEnd") -> None:
        self._open -= 1
        if self._open == 0:
            for timer in self.timers:
                timer.cancel()
            self._ended(self)
        elif end.other.connected:
            other = end.other.transport
            other.close()
            self.timers.append(asyncio.get_running_loop().call_later(LINGER_SECONDS, other.abort))


class _RelayEnd(asyncio.Protocol):
    """What it reads, the other end writes."""

    other: "_RelayEnd"
    transport: asyncio.Transport

    def __init__(self, relayed: _RelayedConnection) -> None:
        self._relayed = relayed
        self.connected = self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connected = True

    def data_received(self, data: bytes) -> None:
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        if not self.other.lost:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.lost:
            self.other.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost = True
        self._relayed.lost(self)
