"""The HTTPS server of a node: uvicorn's protocol on our sockets, in the event loop of the daemon."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.routing import Router
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import ServerState

from secmon.api.console import Console, is_console
from secmon.api.dispatch import BODY_SECONDS, Dispatcher
from secmon.api.protocol import BoundedProtocol, ConnectionLimits
from secmon.api.request_log import RequestLog
from secmon.api.tls import ensure_certificate, server_context
from secmon.cluster.catalogue import Catalogue
from secmon.cluster.node import CallRouter, Node
from secmon.common.accept.acceptor import Accepted, Acceptor
from secmon.common.accept.limiter import ConnectionLimiter
from secmon.common.accept.listening import bind_sockets, within_descriptors
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.config.api import ApiConfig
from secmon.operations.all import CATALOGUE

logger = logging.getLogger("secmon.api")

_DEFAULT_LIMITS = ConnectionLimits()


@dataclass(frozen=True)
class Listening:
    """A port taken, and what TLS needs: all that may take root's rights."""

    sockets: tuple[socket.socket, ...]
    context: ssl.SSLContext | None


def open_listening(
    paths: Paths,
    config: ApiConfig,
    clock: Clock,
    *,
    key_password: str | None = None,
    sockets: Sequence[socket.socket] = (),
) -> Listening:
    """Read or generate the certificate, take the port, unless ``sockets`` are bound already.

    Raises 2003 (TLS), 2010 (address and port, and why they cannot be had).
    """
    context = None
    if config.https.enabled:
        ensure_certificate(paths, config.https, clock)
        context = server_context(paths, config.https, key_password)
    try:
        with as_root():
            return Listening(tuple(sockets or bind_sockets(config.host, config.port)), context)
    except SecmonError as error:
        raise SecmonError(error.code, f"{error.extra}; change host or port in {paths.api_config}") from error


class ApiServer:
    """Serves the catalogue over HTTPS. ``bind``, then ``start`` in the loop, then ``stop``."""

    def __init__(
        self,
        node: Node,
        router: CallRouter,
        catalogue: Catalogue = CATALOGUE,
        *,
        key_password: str | None = None,
        sockets: Sequence[socket.socket] | None = None,
        listening: Listening | None = None,
        limits: ConnectionLimits = _DEFAULT_LIMITS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        """``key_password`` opens the TLS key. What is not given (``sockets``, ``listening``) :meth:`bind` makes."""
        self._node = node
        self._router = router
        self._catalogue = catalogue
        self._key_password = key_password
        self._given = tuple(sockets or ())
        self._listening = listening
        self._limits = limits
        self._body_seconds = body_seconds
        self._state = ServerState()
        self._acceptor: Acceptor | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._log: RequestLog | None = None
        self._lifespan: LifespanOn | None = None
        self._dispatcher: Dispatcher | None = None

    @property
    def port(self) -> int:
        """The TCP port listened on, once bound."""
        assert self._listening is not None
        return int(self._listening.sockets[0].getsockname()[1])

    def bind(self) -> None:
        """Take the port, if that was not done; see :func:`open_listening`."""
        if self._listening is None:
            node = self._node
            self._listening = open_listening(
                node.paths, node.api_config, node.clock, key_password=self._key_password, sockets=self._given
            )

    async def start(self) -> None:
        """Begin to accept connections. Binds first, if that was not done."""
        self.bind()
        listening, node = self._listening, self._node
        assert listening is not None
        self._log = RequestLog(node.paths, node.api_config.logs, node.clock, node.counters)
        for warning in node.api_config.warnings:
            self._log.message("warning", warning)
        config = Config(
            self._application(self._log), loop="none", http=BoundedProtocol, ws="none", lifespan="on", log_config=None,
            access_log=False, proxy_headers=False, server_header=False, date_header=False,
        )  # fmt: skip
        config.load()
        self._lifespan = LifespanOn(config)
        await self._lifespan.startup()
        self._acceptor = self._listen(listening, config, self._log)
        self._acceptor.start()
        self._sweeper = asyncio.create_task(self._sweep())

    def _application(self, log: RequestLog) -> ASGIApp:
        """Starlette carries the lifespan. It gets no routes: paths are resolved only after the limits."""
        dispatcher = self._dispatcher = Dispatcher(
            self._node, self._router, self._catalogue, log, body_seconds=self._body_seconds
        )

        @asynccontextmanager
        async def lifespan(_: object) -> AsyncIterator[None]:
            try:
                yield
            finally:
                dispatcher.close()
                await asyncio.to_thread(log.close)

        return _Application(dispatcher, Console(self._node.counters), lifespan)

    def _listen(self, listening: Listening, config: Config, log: RequestLog) -> Acceptor:
        """Connections are counted before TLS, and each has a bounded time for it."""
        limits, node = self._limits, self._node
        limiter = ConnectionLimiter(
            "api", within_descriptors(limits.accept), log=logger, clock=node.clock, counters=node.counters
        )
        tls: dict[str, Any] = {}
        if listening.context is not None:
            tls = {
                "ssl": listening.context,
                "ssl_handshake_timeout": limits.handshake_seconds,
                "ssl_shutdown_timeout": limits.linger_seconds,
            }

        def framing_error(address: str, status: int) -> None:
            log.request("unknown_user", None, address, "UNKNOWN", "/", {}, {}, 0.0, status)
            log.flush()

        async def serve(connection: socket.socket, accepted: Accepted) -> None:
            protocol = BoundedProtocol(
                config, self._state, {}, limits=limits, counters=node.counters, on_framing_error=framing_error,
                accepted=accepted, limiter=limiter,
            )  # fmt: skip
            try:
                await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection, **tls)
            except (OSError, TimeoutError):
                node.counters.add("api.handshakes.failed")
                raise

        return Acceptor(listening.sockets, limiter, serve, logger)

    async def _sweep(self) -> None:
        """Look at the times of all connections, a few times within the shortest."""
        limits = self._limits
        pause = min(1.0, min(limits.head_seconds, limits.idle_seconds, limits.linger_seconds) / 4)
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(pause)
            self._sweep_once(loop.time())

    def _sweep_once(self, now: float) -> None:
        """Apart from the task, whose variables would keep the last connection."""
        for connection in self._connections():
            connection.sweep(now)

    def _connections(self) -> list[BoundedProtocol]:
        return [one for one in self._state.connections if isinstance(one, BoundedProtocol)]

    async def stop(self, grace: float = 5.0) -> None:
        """Accept nothing new, finish what is in flight for at most ``grace`` seconds, then cut it."""
        if self._acceptor is not None:
            self._acceptor.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in self._connections():
            connection.shutdown()
        await _wait(self._state.tasks, grace)
        if self._dispatcher is not None:
            self._dispatcher.stopping = True
        for task in list(self._state.tasks):
            task.cancel()
        await _wait(self._state.tasks, 1.0)
        for connection in self._connections():
            connection.transport.abort()
        if self._acceptor is not None:
            await self._acceptor.finish(0)
        for each in self._listening.sockets if self._listening else ():
            each.close()
        if self._lifespan is not None:
            await self._lifespan.shutdown()
            self._lifespan = None


class _Application(Router):
    """Starlette's router, without its search for a route on the way to the dispatcher."""

    def __init__(self, dispatcher: Dispatcher, console: Console, lifespan: Lifespan[Any]) -> None:
        super().__init__(default=dispatcher, redirect_slashes=False, lifespan=lifespan)
        self._dispatcher = dispatcher
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif is_console(scope["path"]):
            await self._console(scope, receive, send)
        else:
            await self._dispatcher(scope, receive, send)


async def _wait(tasks: Iterable[asyncio.Task[None]], seconds: float) -> None:
    if pending := list(tasks):
        await asyncio.wait(pending, timeout=seconds)
