"""One timer for a whole fleet: the event loop sees the next tick, not one handle for each agent."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

TICK = 0.02
"""Seconds that timers are rounded up to."""


class Timer:
    """A callback that is due; ``cancel`` makes it not happen."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None  # the slot is emptied when its tick comes


class TimerWheel:
    """Timers grouped by tick: adding one costs a list append unless its tick is a new one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float = TICK) -> None:
        self._loop, self._tick = loop, tick
        self._start = loop.time()
        self._slots: dict[int, list[Timer]] = {}
        self._due: list[int] = []  # heap of the keys of ``_slots``
        self._handle: asyncio.TimerHandle | None = None
        self._armed = 0

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once, ``delay`` seconds from now or up to one tick later."""
        timer = Timer(callback)
        tick = int((self._loop.time() - self._start + max(delay, 0.0)) / self._tick) + 1
        slot = self._slots.get(tick)
        if slot is not None:
            slot.append(timer)
            return timer
        self._slots[tick] = [timer]
        heappush(self._due, tick)
        self._arm()
        return timer

    def close(self) -> None:
        """Forget all timers."""
        self._slots.clear()
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        first = self._due[0]
        if self._handle is not None:
            if self._armed <= first:
                return
            self._handle.cancel()
        self._armed = first
        self._handle = self._loop.call_at(self._start + first * self._tick, self._turn)

    def _turn(self) -> None:
        self._handle = None
        now = (self._loop.time() - self._start) / self._tick
        try:
            while self._due and self._due[0] <= now:
                for timer in self._slots.pop(heappop(self._due)):
                    callback, timer.callback = timer.callback, None
                    if callback is not None:
                        self._loop.call_soon(callback)  # an error in one does not cost the others their turn
        finally:
            if self._due:
                self._arm()


class Timers:
    """Timers with names: setting one replaces the one before it."""

    __slots__ = ("_timers", "_wheel")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._timers: dict[str, Timer] = {}

    def set(self, name: str, delay: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``delay`` seconds unless ``name`` is set anew or cancelled before."""
        self.cancel(name)
        self._timers[name] = self._wheel.later(delay, callback)

    def cancel(self, *names: str) -> None:
        for name in names:
            timer = self._timers.pop(name, None)
            if timer is not None:
                timer.cancel()

    def cancel_all(self) -> None:
        self.cancel(*list(self._timers))
