"""A copy of an installation that runs: all stores as they were at one moment, every file as a whole."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from secmon.backup.contents import Item, is_store, walk
from secmon.backup.fault import BackupError
from secmon.common.file_io import open_regular
from secmon.common.paths import Paths
from secmon.common.privileges import read_protected
from secmon.common.sqlite.files import connect

Progress = Callable[[int, int], None]
"""Called with the bytes done and those in all."""

_TRIES = 3
_PAGES = 4096
"""Of a store that are copied between two reports of progress."""


def copy_installation(paths: Paths, target: Path, without: Collection[str], progress: Progress) -> list[Item]:
    """Copy what belongs to a backup into the folder ``target``; what was copied.

    Raises BackupError for a store that stays locked, or groups that change without end; OSError, sqlite3.Error.
    """
    for _ in range(_TRIES):
        groups = _groups(paths)
        items = list(walk(paths.root, without))
        stores = [path for each in items if _is_store(path := paths.root / each.path)]
        with pinned(paths, stores) as (connections, audit_size):
            copied = _copy(paths, target, items, connections, audit_size, progress)
        if _groups(paths) == groups:
            return copied
        shutil.rmtree(target)
        target.mkdir(mode=0o700)
    raise BackupError("groups of agents are made or removed all the time: try again later")


def _is_store(path: Path) -> bool:
    """As ``is_store``; a file that root keeps for itself, or that is gone, is none."""
    try:
        return is_store(path)
    except (PermissionError, FileNotFoundError):
        return False


def _groups(paths: Paths) -> set[str]:
    """The registry and the folders of groups are changed together: the copy must not see one without the other."""
    return {each.name for each in paths.shared.iterdir() if each.is_dir()}


@contextmanager
def pinned(paths: Paths, stores: Sequence[Path]) -> Iterator[tuple[dict[Path, sqlite3.Connection], int]]:
    """A connection to each store, all at the same moment; and the size of the audit log at that moment.

    The stores of the master are locked against writers until all connections have begun to read: for milliseconds.
    """
    with ExitStack() as stack:
        with ExitStack() as locks:
            for path in (paths.security_db, paths.agents_db, paths.tasks_db):
                if path in stores:
                    _lock(path, locks.enter_context(closing(connect(path))))
            connections = {path: stack.enter_context(closing(connect(path))) for path in stores}
            for connection in connections.values():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            audit = paths.audit_log.stat().st_size if paths.audit_log.exists() else 0
        yield connections, audit


def _lock(path: Path, connection: sqlite3.Connection) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise BackupError(f"{path} cannot be locked ({error}): another process writes to it; try again") from error


def _copy(
    paths: Paths,
    target: Path,
    items: Sequence[Item],
    stores: dict[Path, sqlite3.Connection],
    audit_size: int,
    progress: Progress,
) -> list[Item]:
    total, done, copied = sum(each.size for each in items), 0, []
    for each in items:
        source, copy = paths.root / each.path, target / each.path
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if source in stores:
            _copy_store(stores[source], copy, lambda part, before=done: progress(before + part, total))  # type: ignore[misc]
        elif not _copy_file(paths, source, copy, audit_size if source == paths.audit_log else None):
            continue
        done += each.size
        progress(min(done, total), total)
        copied.append(each._replace(size=copy.stat().st_size))
    return copied


def _copy_store(source: sqlite3.Connection, target: Path, progress: Callable[[int], None]) -> None:
    size = source.execute("PRAGMA page_size").fetchone()[0]
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with closing(connect(target)) as copy:
        source.backup(copy, pages=_PAGES, progress=lambda _, left, total: progress((total - left) * size))


def _copy_file(paths: Paths, source: Path, target: Path, size: int | None) -> bool:
    """Copy the first ``size`` bytes, or all; whether the file is still there."""
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as copy, open(open_regular(source, os.O_RDONLY), "rb") as file:
            shutil.copyfileobj(file, copy, 1 << 20)
            if size is not None:
                copy.truncate(size)
    except FileNotFoundError:
        target.unlink()
        return False
    except PermissionError:  # root keeps it for itself, such as the operator's own TLS key
        target.write_bytes(read_protected(paths.root, source))
    return True
