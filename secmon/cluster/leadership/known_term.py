"""The highest term that a node knows, as the cluster link reads it."""

import os
from pathlib import Path

from secmon.cluster.leadership.role_file import read_role


class KnownTerm:
    """Reads the role file when it has changed. Without a store of record the number is 0."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._number = 0

    @property
    def number(self) -> int:
        """Never falls: a file that is gone or older says nothing."""
        if self._path is None:
            return 0
        try:
            status = os.stat(self._path)
        except OSError:
            return self._number
        if (status.st_ino, status.st_mtime_ns) != self._seen:
            self._seen = status.st_ino, status.st_mtime_ns
            term = read_role(self._path).term
            self._number = max(self._number, term.number if term else 0)
        return self._number


NO_TERMS = KnownTerm(None)
