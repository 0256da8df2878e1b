"""Whether the name of a file still stands for the file that was made."""

from pathlib import Path

FileId = tuple[int, int]
"""Device and number."""


def file_id(path: Path) -> FileId:
    """Of the file at ``path``; zeros without one. Raises OSError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino
