"""Where passwords are hashed and verified: on few threads.

A hash takes 19 MiB while it is computed, and the allocator keeps them for each thread that has computed one. On the
event loop's own threads, of which there are up to 32, a daemon grew by 600 MiB.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2


class HashingThreads:
    """At most :data:`THREADS` hashes at once in a process; who comes later waits."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """``work(...)`` in one of the threads; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))
