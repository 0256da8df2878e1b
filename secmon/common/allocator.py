"""The allocator of the C library: what it keeps of freed memory, and for how long."""

import asyncio
import ctypes
import gc

KEPT_BYTES = 40 << 20
"""Freed memory that a thread keeps at most for what it allocates next: two blocks of a password hash."""
MAX_BLOCK_BYTES = 32 << 20
"""Larger blocks have pages of their own, and give them back. A password hash takes 19 MiB, which would otherwise be new
pages for each login: a third of its time."""
TRIM_SECONDS = 60.0
"""Between two times at which a daemon gives freed memory back."""

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)


def keep_freed_memory() -> None:
    """Let blocks of some hundred kilobytes use again what was freed, instead of new pages from the kernel.

    An answer with 500 items is copied about ten times on its way through two daemons. By default, each copy takes new
    pages, and their faults take several times as long as all else. Only glibc has this; others are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_TOP_PAD, 1 << 20)
        mallopt(_MMAP_THRESHOLD, MAX_BLOCK_BYTES)


async def give_back_freed_memory(seconds: float = TRIM_SECONDS) -> None:
    """Give the pages of freed memory back to the kernel, again and again.

    By itself, the C library gives back only what lies at the end of its heaps, and Python frees objects that refer to
    each other when enough new ones are made. So a daemon would keep hundreds of megabytes forever after a flood of
    connections or large requests. It takes 20 microseconds in an idle daemon, a millisecond for 10 MB given back.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc only
    while True:
        await asyncio.sleep(seconds)
        if any(gc.get_count()[1:]):  # some objects were made since the last time
            gc.collect()
        if trim is not None:
            trim(0)
