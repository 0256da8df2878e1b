"""What was read off files, for as long as they stay as they are."""

import os
import threading
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
Stamp = tuple[int, int, int]


class Remembered(Generic[T]):
    """Values by key, each with the modification time, size and inode of its file. For any thread.

    Files that programs of ours change get another inode, and those that people edit another time or size.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[Stamp, T]] = {}

    def get(self, key: Hashable, path: Path, make: Callable[[], T]) -> T:
        """The value of ``make`` for the file as it is now. Raises OSError, and what ``make`` raises.

        The stamp is taken first: what changes meanwhile is read again the next time.
        """
        found = os.stat(path)
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        value = make()
        with self._lock:
            self._known[key] = (stamp, value)
        return value

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all others."""
        with self._lock:
            for gone in [key for key in self._known if key not in keys]:
                del self._known[gone]
