"""Files of SQLite stores, for any number of processes at once. Plain ``sqlite3``, no SQLAlchemy."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from secmon.common.clock import Clock

BUSY_TIMEOUT_SECONDS = 15


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists, for any thread, without transactions of its own; it never makes a file."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``: one thread of one process at a time. Blocks.

    Required wherever a store may not be in WAL mode yet. SQLite waits for other locks
    (``busy_timeout``), but not when the journal mode changes: of two that switch a new file, or of one that switches
    and one that reads, one gets "database is locked". The folder itself is locked: a lock file could
    be replaced by a link. The store's own file would not do, because closing any descriptor of it drops the locks
    that SQLite holds on it in this process.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # at once, even if a child forked meanwhile holds the descriptor
    finally:
        os.close(descriptor)


def create_private(path: Path, mode: int) -> None:
    """Create an empty file with exactly ``mode``, whatever the umask; an existing file is left as it is."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def files_of(path: Path) -> tuple[Path, ...]:
    """The files of a store: its log and what processes share, if they are there, then the store itself.

    In the order in which they are moved or removed: without its log a store would be another, older one.
    """
    return tuple(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", ""))


def set_aside(path: Path, clock: Clock) -> Path:
    """Rename a store and what SQLite keeps beside it, so that nothing of it is lost; the new path of the store.

    No process may have the store open. Raises OSError.
    """
    kept = path.with_name(f"{path.name}.damaged-{clock.now():%Y%m%d%H%M%S}")
    for file, target in zip(files_of(path), files_of(kept), strict=True):
        with suppress(FileNotFoundError):
            file.rename(target)
    return kept
