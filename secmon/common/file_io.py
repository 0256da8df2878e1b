"""Reading and writing single files.

A file is replaced at once: readers see the old content or the new one, never a part. In folders that others can write,
only regular files are opened: a pipe or a device is refused, and never waited for.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_file(path: Path, data: bytes, mode: int = 0o640, uid: int | None = None, gid: int | None = None) -> None:
    """Replace ``path`` by ``data`` durably.

    The temporary file is in the same folder, hidden and ending in ``.tmp`` (such names are never replicated).
    ``mode`` does not depend on the umask. ``uid`` and ``gid`` None leave the owner of the process. A failure leaves the
    old file and no temporary one. Raises OSError.
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
    """As :func:`write_file`, in the folder whose descriptor is ``folder``, even when that was moved meanwhile."""
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


def open_regular(path: Path, flags: int, mode: int = 0o640, *, follow: bool = False) -> int:
    """A descriptor of the regular file ``path``; a symbolic link in its place is refused unless ``follow``.

    ``flags`` and ``mode`` as in ``os.open``. Raises OSError with the path.
    """
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, *, follow: bool = False) -> bytes:
    """The content of the regular file ``path``. Raises as :func:`open_regular` does."""
    with open(open_regular(path, os.O_RDONLY, follow=follow), "rb") as file:
        return file.read()


class NotRegular(OSError):
    """Another kind of entry (folder, pipe, device) has the place of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))
