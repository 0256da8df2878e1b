"""The floor of a request: a bare Starlette application on the same uvicorn and TLS, returning given bytes."""

import multiprocessing
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.harness import Answer
from secmon.api.tls import ensure_certificate, server_context
from secmon.common.accept.listening import bind_sockets
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.config.api import Https

_BY_SERVER = {"date", "server", "content-length"}


@contextmanager
def bare_server(answers: Sequence[Answer]) -> Iterator[int]:
    """The port of a server, in a separate process, that answers ``/n`` with the n-th of ``answers``."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        child = spawn.Process(target=_child, args=(folder, list(answers), theirs), daemon=True)
        child.start()
        try:
            port: int = ours.recv()
            yield port
        finally:
            child.terminate()
            child.join()


def _child(folder: str, answers: list[Answer], ready: Connection) -> None:
    uvloop.run(_serve(Paths(Path(folder)), answers, ready))


async def _serve(paths: Paths, answers: list[Answer], ready: Connection) -> None:
    paths.ssl.mkdir(parents=True)
    ensure_certificate(paths, Https(), SystemClock())
    routes = [_route(f"/{number}", answer) for number, answer in enumerate(answers)]
    config = uvicorn.Config(
        Starlette(routes=routes), loop="none", http="httptools", access_log=False, log_config=None, lifespan="off"
    )
    config.load()
    config.ssl = server_context(paths, Https())
    sockets = bind_sockets("127.0.0.1", 0)
    ready.send(sockets[0].getsockname()[1])
    await uvicorn.Server(config).serve(sockets)


def _route(path: str, answer: Answer) -> Route:
    lines = (line.partition(":") for line in answer.head.strip().split("\r\n")[1:])
    headers = {name: value.strip() for name, _, value in lines if name.lower() not in _BY_SERVER}

    async def respond(request: Request) -> Response:
        return Response(answer.body, headers=headers)

    return Route(path, respond, methods=["GET", "POST"])
