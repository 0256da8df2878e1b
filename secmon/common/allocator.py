"""The allocator of the C library, in processes that pass large answers on."""

import ctypes

KEPT_BYTES = 40 << 20
"""Freed memory that a thread keeps at most for what it allocates next: two blocks of a password hash."""
MAX_BLOCK_BYTES = 32 << 20
"""Larger blocks have pages of their own, and give them back. A password hash takes 19 MiB, which would otherwise be new
pages for each login: a third of its time."""

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
