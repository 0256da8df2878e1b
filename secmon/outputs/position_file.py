"""How far an output has delivered: one small file, replaced at each commit."""

import hashlib
import re
from pathlib import Path

import msgspec

from secmon.alerts.alert_reader import Position
from secmon.common.file_io import read_regular, write_file


class PositionFile:
    """The committed position of one output. Everything blocks."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.json"

    def load(self) -> Position | None:
        """``None`` at the first start. Raises OSError; ValueError for a file that is no position."""
        try:
            return msgspec.json.decode(read_regular(self._path), type=Position)
        except FileNotFoundError:
            return None

    def commit(self, position: Position) -> None:
        """Raises OSError; the last commit stays in force then."""
        write_file(self._path, msgspec.json.encode(position))


def position_name(kind: str, output: str) -> str:
    """A file name for the position of ``output``: readable, and different for different outputs."""
    readable = re.sub(r"[^a-z0-9.]+", "-", output.lower())[:60].strip("-")
    return f"{kind}-{readable}-{hashlib.sha256(output.encode()).hexdigest()[:8]}"


def forget_others(folder: Path, prefix: str, names: set[str]) -> None:
    """Remove the positions of outputs of a kind that are no longer configured, and what a kill left of commits.

    Raises OSError.
    """
    for path in folder.glob(f"{prefix}-*.json"):
        if path.stem not in names:
            path.unlink(missing_ok=True)
    for path in folder.glob(f".{prefix}-*.tmp"):
        path.unlink(missing_ok=True)
