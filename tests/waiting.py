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
    """The first true value of ``condition``, polled every 20 ms.

    Fails the test after ``seconds``, with ``what`` or the text of the condition. Only a test whose own time limit is
    longer says how long.
    """
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(_failure(condition, what, seconds))
        time.sleep(0.02)


async def until(condition: Callable[[], T], what: str = "", *, seconds: float = LIMIT_SECONDS) -> T:
    """:func:`wait_until` on an event loop, polled every 5 ms."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(_failure(condition, what, seconds))
        await asyncio.sleep(0.005)


def _failure(condition: Callable[[], object], what: str, seconds: float) -> str:
    try:
        text = inspect.getsource(condition).strip()
    except (OSError, TypeError):  # built in, or a bound method of something that is
        text = repr(condition)
    return f"not within {seconds:g} s: {what or text}"
