"""Identity of a file, to check whether a name still leads to the file that was created."""

from pathlib import Path

FileId = tuple[int, int]
"""Device and inode number."""


def file_id(path: Path) -> FileId:
    """Identity of the file at ``path``; zeros if there is none. Raises OSError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino
