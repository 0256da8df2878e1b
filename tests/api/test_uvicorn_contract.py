"""What our HTTP server takes from inside uvicorn, which promises none of it: a release that changes it fails here.

``api/protocol.py``, ``api/cycle.py`` and ``api/server.py`` subclass and call these parts.
"""

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any, cast

import httptools
import pytest
from uvicorn.config import Config
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from secmon.api.cycle import ResponseCycle
from secmon.api.protocol import BoundedProtocol

METHODS: dict[Callable[..., object], list[str]] = {
    HttpToolsProtocol.__init__: ["self", "config", "server_state", "app_state", "_loop"],
    HttpToolsProtocol.connection_made: ["self", "transport"],
    HttpToolsProtocol.connection_lost: ["self", "exc"],
    HttpToolsProtocol.data_received: ["self", "data"],
    HttpToolsProtocol.on_message_begin: ["self"],
    HttpToolsProtocol.on_url: ["self", "url"],
    HttpToolsProtocol.on_header: ["self", "name", "value"],
    HttpToolsProtocol.on_headers_complete: ["self"],
    HttpToolsProtocol.on_body: ["self", "body"],
    HttpToolsProtocol.on_message_complete: ["self"],
    HttpToolsProtocol.on_response_complete: ["self"],
    HttpToolsProtocol._start_asgi_task: ["self", "cycle", "app"],
    HttpToolsProtocol._should_upgrade_to_ws: ["self"],
    HttpToolsProtocol.shutdown: ["self"],
    RequestResponseCycle.__init__: [
        "self", "scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers",
        "message_event", "expect_100_continue", "keep_alive", "on_response",
    ],
    RequestResponseCycle.run_asgi: ["self", "app"],
    RequestResponseCycle.send: ["self", "message"],
    RequestResponseCycle.receive: ["self"],
    FlowControl.drain: ["self"],
    FlowControl.pause_reading: ["self"],
    FlowControl.resume_reading: ["self"],
    LifespanOn.__init__: ["self", "config"],
    LifespanOn.startup: ["self"],
    LifespanOn.shutdown: ["self"],
}  # fmt: skip
"""Methods that are overridden or called, and their parameters."""

SHARED = {"cycle", "expect_100_continue", "url"}
"""Attributes of uvicorn's connection that ours sets; it overrides METHODS besides."""


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_methods_have_these_parameters(method: Callable[..., object]) -> None:
    assert list(inspect.signature(method).parameters) == METHODS[method]


async def _application(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no request is sent")


async def _protocol() -> HttpToolsProtocol:
    config = Config(_application, loop="none", http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None)
    config.load()
    return HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())


@pytest.mark.anyio
async def test_a_connection_has_what_ours_reads_and_sets() -> None:
    protocol = await _protocol()
    assert isinstance(protocol.parser, httptools.HttpRequestParser)
    assert isinstance(protocol.server_state.total_requests, int)
    assert not protocol.cycle
    assert not protocol.scope
    assert not protocol.pipeline
    for name in ("app", "client", "config", "flow", "headers", "logger", "access_logger", "loop", "tasks", "transport"):
        assert hasattr(protocol, name), name
    assert protocol.tasks is protocol.server_state.tasks
    protocol.on_message_begin()
    assert protocol.url == b""
    assert protocol.headers == []
    assert {"type", "headers", "client", "server", "scheme"} <= set(protocol.scope)


@pytest.mark.anyio
async def test_ours_takes_no_other_name_of_uvicorn() -> None:
    source = inspect.getsource(BoundedProtocol)
    names = {*re.findall(r"self\.(\w+)(?:: [^=\n]+)? \+?= ", source), *re.findall(r"self\.(\w+) = ", source)}
    assert {"expires", "_limits"} <= names
    protocol = await _protocol()
    protocol.on_message_begin()
    assert names & set(dir(protocol)) == SHARED
    inherited = {name for name in vars(BoundedProtocol) if hasattr(HttpToolsProtocol, name) and name[:2] != "__"}
    assert inherited <= {method.__name__ for method in METHODS}


def test_a_cycle_starts_in_the_state_that_ours_relies_on() -> None:
    cycle = cast(Any, ResponseCycle)(
        scope={"method": "GET"}, transport=None, flow=None, logger=None, access_logger=None, access_log=False,
        default_headers=[], message_event=asyncio.Event(), expect_100_continue=True, keep_alive=True,
        on_response=lambda: None,
    )  # fmt: skip
    state = (cycle.response_started, cycle.response_complete, cycle.disconnected, cycle.more_body, cycle.keep_alive)
    assert state == (False, False, False, True, True)
    assert cycle.waiting_for_100_continue


def test_status_lines_are_bytes_by_code() -> None:
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert set(range(100, 600)) == set(STATUS_LINE)


def test_the_state_of_a_server_lists_connections_and_tasks() -> None:
    state = ServerState()
    assert (state.total_requests, state.connections, state.tasks) == (0, set(), set())
