"""Sizes of the output files at the last commit: after a crash they tell how many records may be written twice."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

_RECORD_BYTES = 4096


class OutputCheckpoint:
    """One file, overwritten at each commit. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def load(self) -> dict[str, int] | None:
        """The sizes by path; None at the first start, and after a crash that cut the checkpoint. Raises OSError."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def store(self, sizes: Mapping[str, int]) -> None:
        """Raises OSError."""
        if self._file < 0:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        os.pwrite(self._file, msgspec.json.encode(sizes).ljust(_RECORD_BYTES), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def uncommitted_records(committed: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Records that were written after the last commit. ``sizes``: those of now, by path. Raises OSError."""
    return max((_records(Path(path), committed.get(path, 0)) for path in {*committed, *sizes}), default=0)


def _records(path: Path, start: int) -> int:
    """Records after byte ``start``: lines, or alerts as text."""
    separator = b"** Alert " if path.name.startswith("ossec-alerts") and path.suffix == ".log" else b"\n"
    try:
        with path.open("rb") as file:
            file.seek(start)
            return sum(chunk.count(separator) for chunk in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0
