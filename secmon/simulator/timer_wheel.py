"""One timer for a whole fleet: the event loop has one handle for the next tick, not one for each agent."""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from time import monotonic

TICK = 0.02
"""Seconds that timers are rounded up to."""
SLICE = 0.01
"""Seconds of callbacks after which the event loop continues: thousands of due timers delay no signal."""


class Timer:
    """A scheduled callback; ``cancel`` prevents it."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None  # the slot is emptied when its tick comes


class TimerWheel:
    """Timers grouped by tick: adding one is a list append, except for the first of a tick."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float = TICK) -> None:
        self._loop, self._tick = loop, tick
        self._start = loop.time()
        self._slots: dict[int, list[Timer]] = {}
        self._due: list[int] = []  # heap of the keys of ``_slots``
        self._handle: asyncio.TimerHandle | None = None
        self._armed = 0
        self._ready: deque[Timer] = deque()
        self._working = False

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
        """Cancel all timers."""
        self._slots.clear()
        self._due.clear()
        self._ready.clear()
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
        while self._due and self._due[0] <= now:
            self._ready.extend(self._slots.pop(heappop(self._due)))
        if self._due:
            self._arm()
        if self._ready and not self._working:
            self._working = True
            self._work()

    def _work(self) -> None:
        """Call due timers for :data:`SLICE`, then let the loop do other work before the next slice."""
        end = monotonic() + SLICE
        while self._ready:
            timer = self._ready.popleft()
            callback, timer.callback = timer.callback, None
            if callback is None:
                continue
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - of one agent: the others have their turn
                self._loop.call_exception_handler({"message": "a timer of the fleet failed", "exception": error})
            if monotonic() >= end:
                self._loop.call_soon(self._work)
                return
        self._working = False


class Timers:
    """Named timers: setting a name replaces its earlier timer."""

    __slots__ = ("_timers", "_wheel")

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._timers: dict[str, Timer] = {}

    def set(self, name: str, delay: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``delay`` seconds unless ``name`` is set again or cancelled before."""
        self.cancel(name)
        self._timers[name] = self._wheel.later(delay, callback)

    def pending(self, name: str) -> bool:
        """Whether the timer ``name`` is set and not due yet."""
        timer = self._timers.get(name)
        return timer is not None and timer.callback is not None

    def cancel(self, *names: str) -> None:
        for name in names:
            timer = self._timers.pop(name, None)
            if timer is not None:
                timer.cancel()

    def cancel_all(self) -> None:
        self.cancel(*list(self._timers))
