"""The advisories in force on a node, by ecosystem."""

import logging
import os
import threading
from pathlib import Path

from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, advisory_files
from secmon.knowledge.vulnerabilities.records import FeedError

log = logging.getLogger("secmon.knowledge")

_Version = tuple[int, int, int]


class AdvisorySource:
    """Opens the files of the folder, and again those that were replaced.

    A damaged file is told in the log, and its ecosystem is unknown until it is replaced. For one thread at a time.
    """

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.advisories
        self._lock = threading.Lock()
        self._versions: dict[Path, _Version] = {}
        self._files: dict[Path, AdvisoryFile] = {}
        self._by_ecosystem: dict[str, AdvisoryFile] = {}

    def refresh(self) -> bool:
        """Look for changes, at the cost of a look at each file; whether there were any. Files from before are void."""
        with self._lock:
            found = {path: version for path in advisory_files(self._folder) if (version := _version(path)) is not None}
            if found == self._versions:
                return False
            for path in self._versions.keys() | found.keys():
                if found.get(path) != self._versions.get(path):
                    self._replace(path)
            self._versions = found
            self._by_ecosystem = {file.ecosystem: file for file in self._files.values()}
            return True

    def get(self, ecosystem: str) -> AdvisoryFile | None:
        """The file of ``ecosystem``, as of the last :meth:`refresh`."""
        return self._by_ecosystem.get(ecosystem)

    def digests(self) -> dict[str, str]:
        """What is in force: digests by ecosystem."""
        return {ecosystem: file.digest for ecosystem, file in self._by_ecosystem.items()}

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
            self._versions.clear()
            self._by_ecosystem.clear()

    def _replace(self, path: Path) -> None:
        if (old := self._files.pop(path, None)) is not None:
            old.close()
        if not path.exists():
            return
        try:
            self._files[path] = AdvisoryFile(path)
        except FeedError as error:
            log.error("%s", error)


def _version(path: Path) -> _Version | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
