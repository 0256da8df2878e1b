"""Finds the replicated files of a node, and hashes only those that may have changed."""

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from secmon.common.clock import Clock
from secmon.common.files.categories import CATEGORIES, Category, below_category, category_of, well_formed
from secmon.common.files.manifest import Entry, Manifest
from secmon.common.files.tree import OPEN_FOLDER, hash_file, opened_folder

_log = logging.getLogger(__name__)

RACY_NS = 2_000_000_000
"""A file that changed less than this before it was hashed is hashed again: time stamps may be as coarse."""


class Stamp(NamedTuple):
    """Distinguishes a changed file from an unchanged one without reading it."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


class Scanner:
    """The manifest of a node's own files, updated by :meth:`rescan` and :meth:`rescan_paths`.

    Both block on the disk: call them in a thread, one at a time. Symbolic links, special files and names that are not
    UTF-8 are not replicated, logged once and listed in ``skipped``. A file or folder that cannot be read keeps its last
    known content, so that a permission problem does not look like a deletion. ``hashed`` counts the files read.
    """

    def __init__(self, root: Path, *, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._stamps: dict[str, Stamp] = {}
        self._delta: dict[str, Entry | None] = {}
        self._visited: set[str] = set()
        self._unreadable: set[str] = set()
        self.manifest = Manifest()
        self.skipped: set[str] = set()
        self.special_files: set[str] = set()
        """Paths of ``skipped`` that are links or special files."""
        self._warned: set[str] = set()
        self.unstable: set[str] = set()
        """Files that changed while they were read, to be scanned again soon."""
        self.hashed = 0

    def rescan(self) -> dict[str, Entry | None]:
        """Scan everything; return what has changed since the last scan."""
        self.skipped.clear()
        self.special_files.clear()
        return self.rescan_paths(category.folder for category in CATEGORIES)

    def rescan_paths(self, touched: Iterable[str]) -> dict[str, Entry | None]:
        """Scan these files and folders (with all below); return what has changed. Other paths are ignored."""
        self._delta, self._visited, self._unreadable = {}, set(), set()
        folders: set[str] = set()
        for path in _outermost(touched):
            was_file = path in self.manifest
            self._scan(path)
            if was_file and path not in self._visited:
                self._change(path, None)
            elif not was_file:
                folders.add(path)  # it may have been a folder
        if folders:
            self._forget_below(folders)
        return self._delta

    def record_written(self, path: str, entry: Entry | None) -> None:
        """Record what the caller has written (or deleted) at ``path``; the next scan verifies it."""
        self.manifest.put(path, entry)
        self.special_files.discard(path)
        self._stamps.pop(path, None)

    def _scan(self, path: str) -> None:
        inside = [c for c in CATEGORIES if c.folder == path or c.folder.startswith(f"{path}/")]
        for category in inside:
            self._scan_category(category)
        if inside or not well_formed(path):
            return
        parent, _, name = path.rpartition("/")
        try:
            with opened_folder(self._root, parent) as folder:
                self._visit(folder, path, name, os.stat(name, dir_fd=folder, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._keep_unreadable(path, error)

    def _scan_category(self, category: Category) -> None:
        try:
            with opened_folder(self._root, category.folder) as folder:
                self._walk(folder, category.folder)
        except FileNotFoundError:
            return
        except NotADirectoryError as error:  # the folder itself is a symbolic link or a file
            self._skip(category.folder, error.strerror or str(error))
        except OSError as error:
            self._keep_unreadable(category.folder, error)

    def _walk(self, folder: int, prefix: str) -> None:
        with os.scandir(folder) as listing:
            found = list(listing)
        for item in found:
            path = f"{prefix}/{item.name}"
            try:
                self._visit(folder, path, item.name, item.stat(follow_symlinks=False))
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted meanwhile
            except OSError as error:
                self._keep_unreadable(path, error)

    def _visit(self, folder: int, path: str, name: str, status: os.stat_result) -> None:
        is_folder = stat.S_ISDIR(status.st_mode)
        if not (below_category(path) if is_folder else category_of(path)):
            return
        if not well_formed(path):
            self._skip(path, "the name is not portable, or too deep or long")
        elif is_folder:
            self._visit_folder(folder, path, name)
        elif stat.S_ISREG(status.st_mode):
            self._visit_file(folder, path, name, status)
        else:
            self.special_files.add(path)
            self._skip(path, "neither a regular file nor a folder")

    def _visit_folder(self, folder: int, path: str, name: str) -> None:
        descriptor = os.open(name, OPEN_FOLDER, dir_fd=folder)
        try:
            self._walk(descriptor, path)
        finally:
            os.close(descriptor)

    def _visit_file(self, folder: int, path: str, name: str, status: os.stat_result) -> None:
        self.special_files.discard(path)
        if self._stamps.get(path) == Stamp.of(status):
            self._visited.add(path)
            return
        # Any user can set the modification time, but every write sets the change time. So the latter alone decides
        # whether a later write could leave the same stamp.
        now_ns = int(self._clock.now().timestamp() * 1e9)
        digest, before, after = hash_file(folder, name)
        self.hashed += 1
        self._visited.add(path)
        self.unstable.discard(path)
        if Stamp.of(before) != Stamp.of(after):
            self.unstable.add(path)  # it changed while it was read: not to be published
            self._stamps.pop(path, None)
            return
        if now_ns - after.st_ctime_ns > RACY_NS:
            self._stamps[path] = Stamp.of(after)
        else:
            self._stamps.pop(path, None)
        self._change(path, Entry(digest, after.st_size))

    def _change(self, path: str, entry: Entry | None) -> None:
        if entry is None:
            self._stamps.pop(path, None)
            self.unstable.discard(path)
        if self.manifest.put(path, entry):
            self._delta[path] = entry

    def _forget_below(self, folders: set[str]) -> None:
        """Remove files below ``folders`` that the scan has not found."""
        gone = [
            path
            for path in self.manifest
            if path not in self._visited and any(up in folders for up in _parents(path))
            if not any(up in self._unreadable for up in (path, *_parents(path)))
        ]
        for path in gone:
            self._change(path, None)

    def _keep_unreadable(self, path: str, error: OSError) -> None:
        self._unreadable.add(path)
        if path in self.manifest:
            self._visited.add(path)
        self._skip(path, error.strerror or str(error))

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.add(path)
        if path not in self._warned:
            self._warned.add(path)
            _log.warning("Not replicated: %r: %s", path, reason)


def _parents(path: str) -> Iterator[str]:
    """``a/b/c`` -> ``a/b``, ``a``."""
    while path := path.rpartition("/")[0]:
        yield path


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths without those that lie below another of them."""
    given = set(paths)
    return sorted(path for path in given if not any(up in given for up in _parents(path)))
