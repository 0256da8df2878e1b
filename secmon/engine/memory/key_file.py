"""First-time and ignored keys on disk, one a line (ruleset.md 8.1, 8.2).

Keys are written with each batch, after the alerts that they gave rise to: the other order would lose an alert when the
process dies in between, because its event is no longer new when it is analysed again.
"""

import os
from pathlib import Path

from secmon.common.logfile.line_ends import missing_end
from secmon.engine.event_counters import TotalCounts


class KeyFile:
    """A :class:`secmon.engine.memory.fts.KeyStore` that writes at :meth:`flush`. For one thread."""

    def __init__(self, path: Path, counts: TotalCounts | None = None) -> None:
        """``counts``: where written lines count as ``fts``."""
        self._path = path
        self._counts = counts
        self._unwritten: list[bytes] = []

    def lines(self) -> list[bytes]:
        """Keys of earlier processes; a line that a crash cut counts as it is. Raises OSError."""
        return [line for line in self._path.read_bytes().split(b"\n") if line] if self._path.exists() else []

    def append(self, line: bytes) -> None:
        self._unwritten.append(line)

    def flush(self) -> None:
        """Write all new keys, or none. Raises OSError; then they are kept for the next call."""
        if not self._unwritten:
            return
        data = b"".join(line + b"\n" for line in self._unwritten)
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            size = os.fstat(file).st_size
            data = missing_end(file) + data
            try:
                if os.write(file, data) < len(data):
                    raise OSError(f"{self._path}: the disk is full")
            except OSError:
                os.ftruncate(file, size)
                raise
        finally:
            os.close(file)
        if self._counts is not None:
            self._counts.written["fts"] += len(self._unwritten)
        self._unwritten.clear()
