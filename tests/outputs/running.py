"""Deliveries at work in tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from secmon.alerts.silences import Silences
from secmon.common.background import cancel
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.outputs.follower import AlertFollower, Source
from tests.outputs.alert_files import AlertFiles


class Running:
    """A delivery at work."""

    def __init__(self, name: str, counters: Counters, follower: AlertFollower) -> None:
        self._name = name
        self._counters = counters
        self.follower = follower

    def count(self, name: str) -> float:
        return self._counters.snapshot().get(f"{self._name}.{name}", 0)

    def held(self, silence: int) -> float:
        """Alerts that a silence holds back."""
        return self._counters.snapshot().get(f"silences.held.{silence}", 0)


@asynccontextmanager
async def running(
    files: AlertFiles,
    follow: Callable[[str, Source], AlertFollower],
    *,
    name: str = "out",
    killed: bool = False,
    clock: Clock | None = None,
) -> AsyncIterator[Running]:
    """``follow`` with a position called ``name``. ``killed``: the end is that of a kill, otherwise that of a stop."""
    folder = files.root / "queue/outputs"
    folder.mkdir(parents=True, exist_ok=True)
    counters = Counters()
    silences = Silences(Paths(files.root).security_db)
    source = Source(files.series, folder, clock or SystemClock(), counters, silences)
    follower = follow(name, source)
    await follower.open()
    task = asyncio.create_task(follower.run())
    try:
        yield Running(name, counters, follower)
    finally:
        if not killed:
            follower.stop()
            await asyncio.wait({task}, timeout=30)
        await cancel(task)
        silences.close()
