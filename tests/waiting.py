"""Waiting on conditions, never on luck."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, seconds: float = 20.0, what: str = "") -> T:
    """The first true value of ``condition``, polled every 20 ms; fails the test after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.02)


async def until(condition: Callable[[], T], *, seconds: float = 20.0, what: str = "") -> T:
    """:func:`wait_until` on an event loop."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        await asyncio.sleep(0.01)
