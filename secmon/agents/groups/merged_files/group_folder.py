"""The folder of a group: change detection, and its files in the order of a merged file."""

import hashlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from secmon.agents.groups.folders import AR_CONF, MERGED
from secmon.agents.groups.merged_files.format import MergedFile, sharable_name
from secmon.common.files.scan import RACY_NS, Stamp
from secmon.common.files.tree import OPEN_FOLDER, open_file, opened_folder

_log = logging.getLogger("secmon.modulesd.groups")

MAX_FILE = 64 << 20
"""Maximum size in bytes of a shared file; a larger one would take hours to send."""

MAX_DEPTH = 32
READ_AGAIN = 3
"""Attempts to read a file that changes while it is read."""

_WARNINGS = 1000


class FolderState(NamedTuple):
    """The state of a folder, for change detection without reading its files."""

    fingerprint: bytes
    stable: bool
    """False: a file changed so recently that a further change might not alter its time stamps."""
    merged: Stamp | None
    """Of the merged file, if there is one."""


class Warnings:
    """Logs each warning once."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def once(self, what: str, reason: str) -> None:
        if (what, reason) not in self._said and len(self._said) < _WARNINGS:
            self._said.add((what, reason))
            _log.warning("Not shared with agents: %r: %s", what, reason)

    def forget(self, what: str) -> None:
        """Log warnings on ``what`` and all below it again."""
        self._said = {each for each in self._said if not f"{each[0]}/".startswith(f"{what}/")}


class GroupFolder:
    """One group's folder below ``root`` (the installation). Links are ignored: nothing outside is read.

    All methods block on the disk, and raise FileNotFoundError or NotADirectoryError when the folder does not exist.
    """

    def __init__(self, root: Path, folder: str, warnings: Warnings) -> None:
        self._root, self._folder, self._warnings = root, folder, warnings

    def look(self, now_ns: int) -> FolderState:
        """Names and stamps of all files, in one digest; ``now_ns``: the time in nanoseconds since 1970."""
        digest, stable = hashlib.blake2b(digest_size=16), True
        merged: Stamp | None = None
        with opened_folder(self._root, self._folder) as descriptor:
            for _, path, status in self._walk(descriptor, ""):
                stable = stable and abs(now_ns - status.st_ctime_ns) > RACY_NS
                digest.update(b"%s\0%r" % (os.fsencode(path), tuple(Stamp.of(status))))
            try:
                merged = Stamp.of(os.stat(MERGED, dir_fd=descriptor, follow_symlinks=False))
            except FileNotFoundError:
                merged = None
        return FolderState(digest.digest(), stable, merged)

    def read(self) -> list[MergedFile]:
        """The files to share, sorted by name within each folder, sub-folders in their place (agent-link.md 7.2)."""
        files: list[MergedFile] = []
        with opened_folder(self._root, self._folder) as descriptor:
            for folder, path, status in self._walk(descriptor, ""):
                try:
                    content = self._content(folder, path, status)
                except FileNotFoundError:
                    continue  # deleted meanwhile
                if content is not None:
                    files.append(MergedFile(path, content))
        return files

    def _walk(self, folder: int, prefix: str) -> Iterator[tuple[int, str, os.stat_result]]:
        """Open folder, path and status of each file that is shared; a folder is open while its files are yielded."""
        for name in sorted(os.listdir(folder), key=os.fsencode):
            path = f"{prefix}{name}"
            if name.startswith((".", MERGED)) or path == AR_CONF:
                continue
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not sharable_name(path):
                self._pass_over(path, "the name cannot be shared with all agents, or is too long")
            elif stat.S_ISDIR(status.st_mode):
                yield from self._enter(folder, name, path)
            elif not stat.S_ISREG(status.st_mode):
                self._pass_over(path, "neither a regular file nor a folder")
            elif status.st_size > MAX_FILE:
                self._pass_over(path, f"it has more than {MAX_FILE} bytes")
            else:
                yield folder, path, status

    def _enter(self, folder: int, name: str, path: str) -> Iterator[tuple[int, str, os.stat_result]]:
        if path.count("/") >= MAX_DEPTH:
            self._pass_over(path, f"it lies more than {MAX_DEPTH} folders deep")
            return
        try:
            descriptor = os.open(name, OPEN_FOLDER, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return  # deleted, or replaced by a link, meanwhile
        except PermissionError as error:
            self._pass_over(path, str(error.strerror))
            return
        try:
            yield from self._walk(descriptor, f"{path}/")
        finally:
            os.close(descriptor)

    def _content(self, folder: int, path: str, status: os.stat_result) -> bytes | None:
        """None for a file that is not shared: it holds a NUL byte or cannot be read."""
        name = path.rpartition("/")[2]
        for _ in range(READ_AGAIN):
            try:
                content, before, after = read_file(folder, name)
            except PermissionError as error:
                self._pass_over(path, str(error.strerror))
                return None
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                self._pass_over(path, str(error))
                return None
            if Stamp.of(before) == Stamp.of(after):
                break
        if len(content) > MAX_FILE or b"\0" in content:
            self._pass_over(path, "it holds a NUL byte" if b"\0" in content else f"more than {MAX_FILE} bytes")
            return None
        return content

    def _pass_over(self, path: str, reason: str) -> None:
        self._warnings.once(f"{self._folder}/{path}", reason)


def read_file(folder: int, name: str, limit: int = MAX_FILE) -> tuple[bytes, os.stat_result, os.stat_result]:
    """Up to ``limit`` + 1 bytes of a regular file in an open folder, with its status before and after."""
    descriptor = open_file(folder, name)
    with open(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        return file.read(limit + 1), before, os.fstat(descriptor)
