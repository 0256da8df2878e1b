"""The threads in which a process searches alerts: few, so that costly questions wait for each other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from secmon.common.trace import span

T = TypeVar("T")

THREADS = 2
"""Searches of a process at the same time; each may take a core and some ten megabytes."""


class SearchThreads:
    """At most :data:`THREADS` searches at once; further ones wait."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="alerts")

    async def run(self, work: Callable[[], T]) -> T:
        """``work()`` in one of the threads; raises what it raises."""
        with span("search"):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
