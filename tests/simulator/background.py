"""A fleet on a thread of its own, for tests that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from secmon.config.auth import read_auth
from secmon.config.main import load_main_config
from secmon.config.remote import load_remote
from secmon.simulator import Counters, Fleet, Server
from tests.integration.kit import RealNode
from tests.waiting import LIMIT_SECONDS

T = TypeVar("T")
_STOP_SECONDS = 60.0


class Background:
    """The fleet as seen from the test's thread."""

    def __init__(self, fleet: Fleet, loop: asyncio.AbstractEventLoop) -> None:
        self.fleet, self._loop = fleet, loop

    @property
    def counters(self) -> Counters:
        return self.fleet.counters

    def until(self, condition: Callable[[Counters], object], *, seconds: float = LIMIT_SECONDS, what: str = "") -> None:
        """As of the fleet. Raises TimeoutError."""
        self.run(self.fleet.until(condition, seconds=seconds, what=what))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the fleet's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, function: Callable[[], T]) -> T:
        """Call something on the fleet's loop, where its agents live."""

        async def work() -> T:
            return function()

        return self.run(work())


def server_of(node: RealNode) -> Server:
    """Where agents reach a node, by its configuration."""
    enrolment = read_auth(load_main_config(node.paths)).port
    return Server(node.address, load_remote(node.paths)[0].port, enrolment)


@contextmanager
def running(fleet: Fleet) -> Iterator[Background]:
    """The fleet started; stopped at the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fleet", daemon=True)
    thread.start()
    background = Background(fleet, loop)
    try:
        background.run(fleet.start())
        try:
            yield background
        finally:
            background.run(fleet.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_SECONDS)
        loop.close()
