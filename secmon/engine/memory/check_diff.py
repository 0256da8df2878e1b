"""The last log of each rule and host, in files below ``queue/diff`` (``check_diff``, ruleset.md 8.3)."""

import os
import re
from pathlib import Path

from secmon.common.file_io import write_file
from secmon.engine.event import Event

DIFF_LIMIT = 65536
"""Events of this many bytes or more are never compared."""
_UNSAFE_BYTES = re.compile(rb"[\x00-\x1f/\x7f]")
_MAX_HOST = 200
"""Bytes of a host name that name its folder."""


class LastContents:
    """Compares each event with the previous one of its rule and host, and stores it at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def changed(self, event: Event, rule: int) -> bool:
        """Store the log of ``event``; whether there was a different one before, which the event then carries.

        Raises OSError.
        """
        if len(event.log) >= DIFF_LIMIT:
            return False
        path = self._path(event, rule)
        previous = self._read(path)
        if previous == event.log:
            return False
        self._store(path, event.log)
        if previous is None:
            return False
        event.previous_log = previous
        event.previous = [b"Previous output:", previous]
        return True

    def _read(self, path: Path) -> bytes | None:
        return path.read_bytes() if path.exists() else None

    def _store(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        write_file(path, content, 0o640)

    def _path(self, event: Event, rule: int) -> Path:
        """The file of a rule and a host. Host names come from logs: the folder is always directly below the root."""
        host = _UNSAFE_BYTES.sub(b"_", event.hostname).lstrip(b".")[:_MAX_HOST] or b"_"
        return self._folder / os.fsdecode(host) / str(rule) / "last-entry"


class DeferredContents(LastContents):
    """Contents that are written by :meth:`flush`, after the alerts that they gave rise to. For one thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._unwritten: dict[Path, bytes] = {}

    def flush(self) -> None:
        """Write what changed. Raises OSError; what is not written by then is kept for the next call."""
        for path, content in list(self._unwritten.items()):
            super()._store(path, content)
            del self._unwritten[path]

    def _read(self, path: Path) -> bytes | None:
        unwritten = self._unwritten.get(path)
        return super()._read(path) if unwritten is None else unwritten

    def _store(self, path: Path, content: bytes) -> None:
        self._unwritten[path] = content
