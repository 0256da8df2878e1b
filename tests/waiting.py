"""Waiting on conditions, never on luck."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_SECONDS = 100.0
"""For whatever must come: reached by failing tests only, on a busy machine too, and before the time limit of a test."""


def wait_until(condition: Callable[[], T], what: str = "", *, seconds: float = LIMIT_SECONDS) -> T:
    """The first true value of ``condition``, polled every 20 ms, and less often the longer it takes.

    Fails the test after ``seconds``, with ``what`` or the text of the condition. Only a test whose own time limit is
    longer says how long.
    """
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(_failure(condition, what, seconds))
        time.sleep(_pause(0.02, waited))


async def until(condition: Callable[[], T], what: str = "", *, seconds: float = LIMIT_SECONDS) -> T:
    """:func:`wait_until` on an event loop, polled every 5 ms at first."""
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(_failure(condition, what, seconds))
        await asyncio.sleep(_pause(0.005, waited))


def _pause(least: float, waited: float) -> float:
    """Until the next poll: polls cost the processor that the awaited needs, so these come a twentieth late at most."""
    return min(max(least, waited / 20), 0.25)


def _failure(condition: Callable[[], object], what: str, seconds: float) -> str:
    try:
        text = inspect.getsource(condition).strip()
    except (OSError, TypeError):  # built in, or a bound method of something that is
        text = repr(condition)
    return f"not within {seconds:g} s: {what or text}"
