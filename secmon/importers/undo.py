"""Files that an import writes, and puts back when a later step fails."""

from contextlib import ExitStack
from pathlib import Path

from secmon.common.file_io import write_file


def write_or_restore(path: Path, data: bytes, mode: int, undo: ExitStack) -> None:
    """Write ``path``; ``undo`` gets the step that makes it what it was before. Raises OSError."""
    if path.exists():
        undo.callback(write_file, path, path.read_bytes(), mode)
    else:
        undo.callback(path.unlink, missing_ok=True)
    write_file(path, data, mode)
