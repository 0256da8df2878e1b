"""A cache of values that are made from files, valid while the files do not change."""

import os
import threading
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
Stamp = tuple[int, int, int]


def stamp_of(path: str | Path) -> Stamp:
    """Modification time, size and inode. Raises OSError."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


class FileCache(Generic[T]):
    """Values by key, each with the stamp of its file. For any thread.

    The product replaces files, which changes the inode; editors change the time or the size.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[Stamp, T]] = {}

    def get(self, key: Hashable, path: Path, make: Callable[[], T]) -> T:
        """The value of ``make`` for the file as it is now. Raises OSError, and what ``make`` raises.

        The stamp is taken before the value is made: a change in between is noticed by the next call.
        """
        stamp = stamp_of(path)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        value = make()
        with self._lock:
            self._known[key] = (stamp, value)
        return value

    def retain(self, keys: Collection[Hashable]) -> None:
        """Drop all values but those of ``keys``."""
        with self._lock:
            for gone in [key for key in self._known if key not in keys]:
                del self._known[gone]
