"""Received files, written to a folder of their own and verified before they are installed."""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.files.categories import checked
from secmon.common.files.manifest import Entry
from secmon.common.files.tree import content_hash

FSYNC_LIMIT = 64
"""Files or folders up to which each is flushed by itself; beyond, one flush of the file system is cheaper."""
RESERVE_BYTES = 16 << 20
"""Free disk space that replication does not use."""


class FileOwner(NamedTuple):
    """User and group of replicated files; -1: those of the process."""

    uid: int = -1
    gid: int = -1


def sync_filesystem(folder: Path) -> None:
    """Flush the whole file system that holds ``folder``. Raises ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


class Staging:
    """The folder of the batch that is being received. All methods block on the disk.

    Left-over content of an earlier run is useless: call :meth:`clear` before use and after every batch.
    """

    def __init__(self, folder: Path, owner: FileOwner) -> None:
        self.folder = folder
        self.owner = owner

    def clear(self) -> None:
        """Remove all that is left of a batch."""
        if self.folder.is_symlink() or self.folder.is_file():
            self.folder.unlink()
        elif self.folder.exists():
            shutil.rmtree(self.folder)

    def begin(self, wanted: Sequence[tuple[str, Entry]]) -> "StagedBatch":
        """Start a batch. Raises ``OSError`` (ENOSPC) if the disk has no room for its files."""
        self.clear()
        self.folder.mkdir(mode=0o700, parents=True)
        size = sum(entry.size for _, entry in wanted)
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_frsize
        if size + RESERVE_BYTES > free:
            text = f"{size} bytes of replicated files need space, {free} are free ({RESERVE_BYTES} stay reserved)"
            raise OSError(errno.ENOSPC, text, str(self.folder))
        return StagedBatch(self.folder, self.owner, wanted)


class StagedBatch:
    """One batch as it is received. ``received`` has the complete, verified files: path to staged file."""

    def __init__(self, folder: Path, owner: FileOwner, wanted: Sequence[tuple[str, Entry]]) -> None:
        self._folder = folder
        self._owner = owner
        self._wanted = wanted
        self._index = -1
        self._descriptor = -1
        self._size = 0
        self._digest = content_hash()
        self.received: dict[str, Path] = {}
        self.gone: list[str] = []

    def write(self, chunks: Iterable[pb.FileChunk], offset: int) -> None:
        """Write pieces whose ``index`` counts from ``offset`` in the wanted files.

        Raises 3045 if they are not of the requested files, ``OSError`` of the disk.
        """
        for chunk in chunks:
            index = offset + chunk.index
            if index != self._index or self._descriptor < 0:
                self._open(index)
            path, entry = self._wanted[index]
            self._size += len(chunk.data)
            if self._size > entry.size:
                raise SecmonError(3045, f"{path!r} is longer than announced")
            if chunk.gone:
                self._close()
                self.gone.append(path)
                continue
            self._digest.update(chunk.data)
            _write_all(self._descriptor, chunk.data)
            if chunk.last:
                self._complete(path, entry)

    def flush(self) -> None:
        """Flush every received file to the disk."""
        if len(self._wanted) > FSYNC_LIMIT:
            sync_filesystem(self._folder)

    def close(self) -> None:
        """Close the file being written, if any."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _staged(self, index: int) -> Path:
        return self._folder / str(index)

    def _open(self, index: int) -> None:
        if self._descriptor >= 0 or not self._index < index < len(self._wanted):
            raise SecmonError(3045, "the pieces of the files are not in order")
        self._index, self._size, self._digest = index, 0, content_hash()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._staged(index), flags, 0o600)

    def _close(self) -> None:
        self.close()
        self._staged(self._index).unlink(missing_ok=True)

    def _complete(self, path: str, entry: Entry) -> None:
        if self._size != entry.size or self._digest.digest() != entry.hash:
            raise SecmonError(3045, f"{path!r} does not have the announced content")
        if self._owner != FileOwner():
            os.fchown(self._descriptor, *self._owner)
        os.fchmod(self._descriptor, checked(path).mode)  # after the owner: a change of owner clears special bits
        if len(self._wanted) <= FSYNC_LIMIT:
            os.fsync(self._descriptor)
        self.close()
        self.received[path] = self._staged(self._index)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
