"""Installs complete files in the replicated folders, and removes extra ones."""

import errno
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from secmon.common.errors import SecmonError
from secmon.common.files.categories import CATEGORIES, FOLDER_MODE, below_category, checked, excluded
from secmon.common.files.tree import OPEN_FOLDER, opened_folder
from secmon.worker.staging import FSYNC_LIMIT, FileOwner, sync_filesystem

_log = logging.getLogger(__name__)

_COPY_PREFIX = ".secmon-new-"
"""Prefix of copies in the destination folder, made if that is on another file system than staging."""
_COPY_BLOCK = 1 << 20


class FileInstaller:
    """Changes the replicated folders of a worker. After a crash at any moment every file is the old or the new one.

    Methods block on the disk; :meth:`sync` ends a batch.
    """

    def __init__(self, root: Path, owner: FileOwner) -> None:
        self._root = root
        self._owner = owner
        self._dirty: set[str] = set()
        self._shrunk: set[tuple[str, str]] = set()

    def remove_leftovers(self) -> None:
        """Remove copies that an earlier run left in destination folders."""
        for category in CATEGORIES:
            with suppress(FileNotFoundError, NotADirectoryError), opened_folder(self._root, category.folder) as folder:
                for _, _, names, descriptor in os.fwalk(dir_fd=folder):
                    _remove_leftovers(names, descriptor)

    def install(self, path: str, staged: Path) -> None:
        """Move ``staged`` to ``path``, make the folders it needs, and replace whatever is there.

        Raises 3045 if the category's own folder is not a real folder, ``OSError`` of the disk.
        """
        folder, _, name = path.rpartition("/")
        checked(path)
        descriptor = self._open_folder(folder)
        try:
            self._move(staged, descriptor, name)
        finally:
            os.close(descriptor)
        self._dirty.add(folder)

    def remove(self, path: str) -> None:
        """Delete the file ``path``; :meth:`sync` removes folders that this empties, if the category says so."""
        folder, _, name = path.rpartition("/")
        category = checked(path)
        # The file is gone, or a file has replaced its folder, or a folder the file: there is nothing to delete.
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            with opened_folder(self._root, folder) as descriptor:
                os.unlink(name, dir_fd=descriptor)
            self._dirty.add(folder)
        if category.remove_emptied:
            self._shrunk.add((folder, category.folder))

    def sync(self) -> None:
        """Remove emptied folders and flush all names changed since the last call to the disk."""
        shrunk, self._shrunk = self._shrunk, set()
        for folder, top in sorted(shrunk, reverse=True):
            self._remove_emptied(folder, top)
        dirty, self._dirty = self._dirty, set()
        if len(dirty) > FSYNC_LIMIT:
            for folder in {category.folder for category in CATEGORIES}:
                with suppress(FileNotFoundError):
                    sync_filesystem(self._root / folder)
            return
        for folder in dirty:
            with suppress(FileNotFoundError, NotADirectoryError), opened_folder(self._root, folder) as descriptor:
                os.fsync(descriptor)

    def _open_folder(self, folder: str) -> int:
        """Descriptor of a folder, made if necessary; below the category's own folder it replaces files."""
        descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        parent = ""
        try:
            for part in folder.split("/"):
                path = f"{parent}/{part}" if parent else part
                inner = self._open_or_make(descriptor, path)
                os.close(descriptor)
                descriptor, parent = inner, path
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_or_make(self, descriptor: int, path: str) -> int:
        """Open the folder ``path``, whose parent is open."""
        parent, _, part = path.rpartition("/")
        try:
            return os.open(part, OPEN_FOLDER, dir_fd=descriptor)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            if not below_category(path):
                raise SecmonError(3045, f"{path} is not a folder of its own") from error
            os.unlink(part, dir_fd=descriptor)
        os.mkdir(part, FOLDER_MODE, dir_fd=descriptor)
        inner = os.open(part, OPEN_FOLDER, dir_fd=descriptor)
        if self._owner != FileOwner():
            os.fchown(inner, *self._owner)
        os.fchmod(inner, FOLDER_MODE)
        self._dirty.add(parent)
        return inner

    def _move(self, staged: Path, folder: int, name: str) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)  # the master has no files in it
        try:
            os.rename(staged, name, dst_dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EXDEV:
                self._copy_and_move(staged, folder, name)
            elif error.errno == errno.EBUSY:
                _overwrite(staged, folder, name)
            else:
                raise

    def _copy_and_move(self, staged: Path, folder: int, name: str) -> None:
        """From another file system: copy beside the destination first."""
        aside = f"{_COPY_PREFIX}{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(aside, flags, 0o600, dir_fd=folder)
        try:
            _copy(staged, descriptor)
            os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            os.unlink(aside, dir_fd=folder)
            if error.errno != errno.EBUSY:
                raise
            _overwrite(staged, folder, name)
        staged.unlink(missing_ok=True)

    def _remove_emptied(self, folder: str, top: str) -> None:
        """Remove ``folder`` and its parents below ``top``, as long as they hold nothing but excluded files."""
        while folder.startswith(f"{top}/"):
            parent, _, name = folder.rpartition("/")
            try:
                with opened_folder(self._root, folder) as descriptor:
                    with os.scandir(descriptor) as listing:
                        left = list(listing)
                    if any(item.is_dir(follow_symlinks=False) or not excluded(item.name) for item in left):
                        return
                    for item in left:
                        os.unlink(item.name, dir_fd=descriptor)
                with opened_folder(self._root, parent) as descriptor:
                    os.rmdir(name, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError):
                pass  # gone already, but its parent may be empty too
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # a file was made there meanwhile
                    raise
                return
            self._dirty.discard(folder)
            self._dirty.add(parent)
            folder = parent


def _overwrite(staged: Path, folder: int, name: str) -> None:
    """Overwrite a file that is a mount point, which cannot be replaced by renaming (cluster.md 4.2.3)."""
    _log.warning("%r is a mount point: its content is overwritten in place", name)
    descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    _copy(staged, descriptor)


def _copy(staged: Path, descriptor: int) -> None:
    """Copy content, owner and mode into an open file, flush and close it."""
    with open(descriptor, "wb") as target, staged.open("rb") as source:
        shutil.copyfileobj(source, target, _COPY_BLOCK)
        target.flush()
        status = os.fstat(source.fileno())
        with suppress(PermissionError):  # the owner of a mounted file may be fixed
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        os.fsync(descriptor)


def _remove_leftovers(names: Iterable[str], folder: int) -> None:
    for name in names:
        if name.startswith(_COPY_PREFIX):
            os.unlink(name, dir_fd=folder)
