"""What has been seen, on disk: keys that came before and last contents, written with each batch (ruleset.md 8).

They are written after the alerts that they gave rise to: else a death in between would leave alerts that nobody tells.
"""

import os
from pathlib import Path

from secmon.common.atomic import write_file
from secmon.common.logfile.line_ends import missing_end
from secmon.engine.counters import Counts
from secmon.engine.event import Event
from secmon.engine.memory.seen import DIFF_LIMIT, LastContents


class KeyFile:
    """A :class:`secmon.engine.memory.seen.Journal` whose lines wait for :meth:`flush`. For one thread."""

    def __init__(self, path: Path, counts: Counts | None = None) -> None:
        """``counts``: where written lines count as ``fts``."""
        self._path = path
        self._counts = counts
        self._waiting: list[bytes] = []

    def lines(self) -> list[bytes]:
        """Keys of earlier processes; a line that a death cut counts as it is. Raises OSError."""
        return [line for line in self._path.read_bytes().split(b"\n") if line] if self._path.exists() else []

    def append(self, line: bytes) -> None:
        self._waiting.append(line)

    def flush(self) -> None:
        """Raises OSError; what waits is written whole at the next call."""
        if not self._waiting:
            return
        data = b"".join(line + b"\n" for line in self._waiting)
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
            self._counts.written["fts"] += len(self._waiting)
        self._waiting.clear()


class DeferredContents(LastContents):
    """Contents of ``check_diff`` that are written by :meth:`flush`. For one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._waiting: dict[Path, bytes] = {}

    def changed(self, event: Event, rule: int) -> bool:
        """As ``LastContents.changed``."""
        if len(event.log) >= DIFF_LIMIT:
            return False
        path = self._path(event, rule)
        old = self._waiting.get(path)
        if old is None and path.exists():
            old = path.read_bytes()
        if old == event.log:
            return False
        self._waiting[path] = event.log
        if old is None:
            return False
        event.previous_log = old
        event.previous = [b"Previous output:", old]
        return True

    def flush(self) -> None:
        """Raises OSError; what was not written goes on waiting."""
        for path, content in list(self._waiting.items()):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            write_file(path, content, 0o640)
            del self._waiting[path]
