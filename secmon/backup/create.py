"""Makes a backup: a copy of the installation, archived, encrypted, read back, and only then given its name."""

import errno
import fcntl
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from secmon import __version__
from secmon.backup.archive import About, read_archive, write_archive
from secmon.backup.contents import Item, walk
from secmon.backup.encryption import Seal, decrypt, encrypt, read_head
from secmon.backup.fault import BackupError
from secmon.backup.pipes import produced
from secmon.backup.snapshot import copy_installation
from secmon.cluster.record.engine import record_at
from secmon.cluster.record.masters_record import record_address
from secmon.cluster.record.setup import check_tables
from secmon.cluster.store_checks import inspect_stores
from secmon.common.clock import Clock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.config.cluster import ClusterSection, StoreOfRecord
from secmon.config.main import load_main_config
from secmon.daemons.take_files import take_recorded_files
from secmon.daemons.takeover import take_everything

Progress = Callable[[str, int, int], None]
"""Called with the step (``copy``, ``write``, ``read``), and the bytes done and in all."""

_FOLDER = "tmp"
_PREFIX = ".backup-"
_RECORD_SECONDS = 600.0
_ASIDE = "before-backup"
_BLOCK = 1 << 20


def create_backup(
    paths: Paths, target: Path, seal: Seal, *, without: Collection[str], clock: Clock, progress: Progress
) -> tuple[About, int]:
    """Write a backup of a master, running or not, to ``target``, mode 0600; what it holds, and its size in bytes.

    Nothing is left under the name after a failure. Raises BackupError, SecmonError of the store of record, OSError.
    """
    with _copied(paths) as folder:
        about, items = _copy(paths, folder, without, clock, lambda done, all_: progress("copy", done, all_))
        with _partial(target) as file:
            _write(file, seal, folder, about, items, lambda done: progress("write", done, about.size))
            size = file.tell()
            os.fsync(file.fileno())
            _read_back(file, seal, folder, about, lambda done: progress("read", done, about.size))
    return about, size


@contextmanager
def _copied(paths: Paths) -> Iterator[Path]:
    """A folder for the copy, which only this process may enter; what killed processes have left is removed."""
    parent = paths.root / _FOLDER
    for left in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _lock(left):
                shutil.rmtree(left)
    folder = parent / f"{_PREFIX}{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _lock(folder: Path) -> bool:
    """Whether no process works with ``folder``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _copy(
    paths: Paths, folder: Path, without: Collection[str], clock: Clock, progress: Callable[[int, int], None]
) -> tuple[About, list[Item]]:
    content = folder / "content"
    content.mkdir(mode=0o700)
    try:
        items = copy_installation(paths, content, without, progress)
    except sqlite3.Error as error:
        raise BackupError(f"the stores cannot be copied ({error}): check the disk of {paths.root}") from error
    cluster = load_main_config(paths).cluster
    if cluster.store is not None:
        _take_recorded(paths, Paths(content), cluster, cluster.store, clock)
        known = {item.path: item for item in items}
        items = [item._replace(mode=0o640, roots=False) for item in walk(content)]
        items = [known[item.path]._replace(size=item.size) if item.path in known else item for item in items]
    found = inspect_stores(Paths(content), worker=False)
    if problems := [*found.problems, *found.replaceable.values()]:
        reasons = "; ".join(problems).replace(f"{content}/", "")
        raise BackupError(f"what would be saved is damaged: {reasons}")
    about = About(
        version=__version__,
        node=cluster.node_name,
        role="single" if cluster.disabled else "master",
        created=clock.now().timestamp(),
        files=len(items),
        size=sum(item.size for item in items),
        without=tuple(sorted(without)),
        recorded=cluster.store is not None,
    )
    return about, items


def _take_recorded(paths: Paths, copy: Paths, cluster: ClusterSection, store: StoreOfRecord, clock: Clock) -> None:
    """Bring the copy up to the store of record, as a node that becomes master does. Raises SecmonError 3050."""
    with (
        record_at(record_address(paths, store), statement_seconds=_RECORD_SECONDS) as record,
        record.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        connection.begin(),
    ):
        check_tables(connection)
        take_everything(connection, copy, cluster.key, _ASIDE)
        take_recorded_files(connection, copy, _ASIDE, clock)


@contextmanager
def _partial(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside ``target`` that gets its name at the end of the block; removed when the block fails."""
    with as_root():  # the operator names the file
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = f"{target.name}.partial"
    try:
        with as_root():
            if target.exists():
                raise FileExistsError(errno.EEXIST, "it exists; remove it, or choose another name", str(target))
            with suppress(FileNotFoundError):  # of a process that was killed
                os.unlink(name, dir_fd=folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
            os.fchmod(descriptor, 0o600)  # whatever the umask
        try:
            with open(descriptor, "w+b") as file:
                yield file
            with as_root():
                os.rename(name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
        except BaseException:
            with as_root(), suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _write(
    file: IO[bytes], seal: Seal, folder: Path, about: About, items: Sequence[Item], progress: Callable[[int], None]
) -> None:
    content = folder / "content"
    with produced(lambda out: write_archive(out, content, about, items, progress)) as plain:
        encrypt(plain, file, seal)
    file.flush()


def _read_back(file: IO[bytes], seal: Seal, folder: Path, about: About, progress: Callable[[int], None]) -> None:
    """Decrypt what is on the disk, and compare it with the copy. Raises BackupError."""
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    file.seek(0)
    read_head(file)
    done = 0

    def compare(item: Item, content: IO[bytes]) -> None:
        nonlocal done
        with open(folder / "content" / item.path, "rb") as copied:
            while block := content.read(_BLOCK):
                if copied.read(len(block)) != block:
                    raise BackupError(f"{item.path} was not written as it is: check the disk of the backup")
                done += len(block)
                progress(done)

    with produced(lambda out: decrypt(file, out, seal.identity)) as plain:
        if read_archive(plain, lambda _: None, compare) != about:
            raise BackupError("the backup was not written as it is: check its disk")
