"""The advisories in force on a node, by ecosystem."""

import logging
import os
from pathlib import Path

from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, advisory_files, file_name
from secmon.knowledge.vulnerabilities.records import FeedError

log = logging.getLogger("secmon.knowledge")

_Version = tuple[int, int, int]


class AdvisorySource:
    """Opens the files of the folder, and again those that were replaced. For one thread.

    A damaged file is named in the log; until it is replaced, what was read before stays in force.
    """

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.advisories
        self._versions: dict[Path, _Version] = {}
        self._files: dict[Path, AdvisoryFile] = {}
        self._damaged: set[str] = set()
        self._by_ecosystem: dict[str, AdvisoryFile] = {}

    def refresh(self) -> bool:
        """Look for changes, at the cost of a look at each file; whether there were any. Files from before are void."""
        found = {path: version for path in advisory_files(self._folder) if (version := _version(path)) is not None}
        if found == self._versions:
            return False
        for path in self._versions.keys() | found.keys():
            if found.get(path) != self._versions.get(path):
                self._open(path) if path in found else self._close(path)
        self._versions = found
        self._by_ecosystem = {file.ecosystem: file for file in self._files.values()}
        return True

    def get(self, ecosystem: str) -> AdvisoryFile | None:
        """The file of ``ecosystem``, as of the last :meth:`refresh`; None: there is none. Raises FeedError."""
        found = self._by_ecosystem.get(ecosystem)
        if found is None and file_name(ecosystem) in self._damaged:
            raise FeedError(f"{self._folder / file_name(ecosystem)} is damaged: import the feed again")
        return found

    def digest(self, ecosystem: str) -> str:
        """What is in force for ``ecosystem``; empty: nothing is. Raises FeedError."""
        file = self.get(ecosystem)
        return "" if file is None else file.digest

    def close(self) -> None:
        for path in list(self._files):
            self._close(path)
        self._versions.clear()
        self._by_ecosystem.clear()

    def _open(self, path: Path) -> None:
        try:
            new = AdvisoryFile(path)
        except FeedError as error:
            log.error("%s", error)
            self._damaged.add(path.name)
            return
        self._close(path)
        self._files[path] = new

    def _close(self, path: Path) -> None:
        self._damaged.discard(path.name)
        if (old := self._files.pop(path, None)) is not None:
            old.close()


def _version(path: Path) -> _Version | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
