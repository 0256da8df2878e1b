"""What the adapter costs: ``GET /`` with a token, limits and request log, against a bare Starlette application.

Both run on uvicorn with httptools and uvloop, over HTTPS, each in a separate process; the rounds alternate.

    python bench/bench_api.py [--seconds 1] [--rounds 7] [--connections 16] [--json]
"""

import argparse
import asyncio
import json
import multiprocessing
import ssl
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import uvicorn
import uvloop
from msgspec import structs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from secmon.api.server import ApiServer
from secmon.api.tls import ensure_certificate, server_context
from secmon.cluster.call import Call
from secmon.cluster.executor import Executor
from secmon.cluster.node import Node, Services
from secmon.cluster.slow_requests import SlowRequest
from secmon.common.accept.listening import bind_sockets
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.common.paths import Paths
from secmon.config.api import Access, ApiConfig
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.operations.nodes import root
from secmon.security.origin import initialise
from secmon.security.store.security_store import SecurityStore

BODY = {"data": {"title": root.__name__, "api_version": "4.8.2", "revision": 1}, "error": 0}


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Alone:
    """Supervisor and lease of a node without events."""

    async def restart(self) -> None:
        return

    async def known_states(self) -> Mapping[str, str]:
        return {}

    async def checked_states(self) -> Mapping[str, str]:
        return {}

    async def counters(self, daemon: str) -> Mapping[str, Any]:
        return {}

    async def slow_requests(self, *, since: timedelta, limit: int) -> Sequence[SlowRequest]:
        return []

    async def supervisor_status(self) -> Mapping[str, Any]:
        return {"processes": [], "task_restarts": {}, "process": {}}

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        raise SecmonError(1121, daemon)

    def remaining(self) -> float:
        return float("inf")

    def refusal(self) -> None:
        return None


class Local:
    """Everything runs here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def route(self, call: Call) -> Result:
        return await self._executor.run(call)


def _node(folder: Path) -> Node:
    paths, clock = Paths(folder), SystemClock()
    for each in (paths.security, paths.ssl, paths.logs):
        each.mkdir(parents=True, exist_ok=True)
    store = SecurityStore(paths.security_db)
    initialise(store, admin_password="Bench-Mark-1", dashboard_password="Bench-Mark-1", clock=clock)
    config = ApiConfig(host="127.0.0.1", access=Access(max_request_per_minute=10**9))
    return Node(
        paths=paths,
        api_config=structs.replace(config, port=0),
        main_config=parse_main_config("<ossec_config></ossec_config>"),
        options=InternalOptions.defaults(),
        security=store,
        services=Services(control=Alone(), lease=Alone()),
    )


async def _serve_secmon(folder: Path, ready: Connection) -> None:
    node = _node(folder)
    server = ApiServer(node, Local(Executor(node)))
    await server.start()
    view = node.security.view()
    user = view.user("admin")
    assert user is not None
    ready.send((server.port, node.tokens.issue(view, user)))
    await asyncio.Event().wait()


async def _serve_starlette(folder: Path, ready: Connection) -> None:
    async def info(request: Request) -> JSONResponse:
        return JSONResponse(BODY)

    node = _node(folder)
    ensure_certificate(node.paths, node.api_config.https, node.clock)
    app = Starlette(routes=[Route("/", info)])
    config = uvicorn.Config(app, loop="none", http="httptools", access_log=False, log_config=None)
    config.load()
    config.ssl = server_context(node.paths, node.api_config.https)
    sockets = bind_sockets("127.0.0.1", 0)
    ready.send((sockets[0].getsockname()[1], "none"))
    await uvicorn.Server(config).serve(sockets)


def _child(kind: str, folder: str, ready: Connection) -> None:
    serve = _serve_secmon if kind == "secmon" else _serve_starlette
    uvloop.run(serve(Path(folder), ready))


async def _client(stream: Stream, request: bytes, until: float) -> int:
    """Requests answered on one keep-alive connection until the loop's clock reads ``until``."""
    reader, writer = stream
    loop, count = asyncio.get_running_loop(), 0
    while loop.time() < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        count += 1
    writer.close()
    return count


async def _rate(port: int, token: str, connections: int, seconds: float) -> float:
    """Requests a second, counted from when all connections are open."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    streams = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(connections)]
    until = asyncio.get_running_loop().time() + seconds
    counts = await asyncio.gather(*(_client(stream, request, until) for stream in streams))
    return sum(counts) / seconds


class Sample(NamedTuple):
    """One round of one server: requests a second, and microseconds of its processor time for each."""

    rate: float
    cost: float


def _sample(server: psutil.Process, port: int, token: str, connections: int, seconds: float) -> Sample:
    before = server.cpu_times()
    rate = uvloop.run(_rate(port, token, connections, seconds))
    after = server.cpu_times()
    used = after.user + after.system - before.user - before.system
    return Sample(rate, used / (rate * seconds) * 1e6)


def measure(rounds: int, seconds: float, connections: int) -> dict[str, float]:
    """Median rates, costs, and the ratio of the two servers in each (1 is as good as the bare application)."""
    samples: dict[str, list[Sample]] = {"secmon": [], "starlette": []}
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        servers = {}
        for kind in samples:
            ours, theirs = spawn.Pipe()
            child = spawn.Process(target=_child, args=(kind, f"{folder}/{kind}", theirs), daemon=True)
            child.start()
            servers[kind] = (child, *ours.recv())
        for kind in list(samples) * (rounds + 1):
            child, port, token = servers[kind]
            samples[kind].append(_sample(psutil.Process(child.pid), port, token, connections, seconds))
        for child, _, _ in servers.values():
            child.terminate()
            child.join()
    found: dict[str, float] = {}
    for kind, taken in samples.items():
        measured = taken[1:]  # the first warms up
        found[f"{kind}_rate"] = round(statistics.median(one.rate for one in measured), 1)
        found[f"{kind}_cost_us"] = round(statistics.median(one.cost for one in measured), 1)
    found["ratio"] = round(found["secmon_rate"] / found["starlette_rate"], 3)
    found["cost_ratio"] = round(found["starlette_cost_us"] / found["secmon_cost_us"], 3)
    return found


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.rounds, options.seconds, options.connections)
    if options.json:
        print(json.dumps(found))
    else:
        for kind in ("secmon", "starlette"):
            print(
                f"{kind:<9} {found[f'{kind}_rate']:>8.0f} requests/s {found[f'{kind}_cost_us']:>8.1f} us of processor"
            )
        print(f"{'ratio':<9} {found['ratio']:>8.2f} {found['cost_ratio']:>19.2f}")


if __name__ == "__main__":
    main()
