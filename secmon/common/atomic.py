"""The one way to write a file: readers see the old content or the new one, never a part."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_file(path: Path, data: bytes, mode: int = 0o640, uid: int | None = None, gid: int | None = None) -> None:
    """Replace ``path`` by ``data`` durably.

    The temporary file lies in the same folder, hidden and ending in ``.tmp`` (such names are never replicated).
    ``mode`` holds whatever the umask is. ``uid`` and ``gid`` None leave the owner of the process. On any failure the
    old file stands, the temporary one is gone, and the ``OSError`` is the caller's.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_in(folder, path.name, data, mode, uid, gid)
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    finally:
        os.close(folder)


def write_in(
    folder: int, name: str, data: bytes, mode: int = 0o640, uid: int | None = None, gid: int | None = None
) -> None:
    """As :func:`write_file`, in the folder whose descriptor is ``folder``, wherever that has moved meanwhile."""
    temporary = f".{name[:200]}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            if uid is not None or gid is not None:
                os.fchown(descriptor, -1 if uid is None else uid, -1 if gid is None else gid)
            os.fchmod(descriptor, mode)  # after the owner: a change of owner clears special bits
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` (created, renamed, removed) survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
