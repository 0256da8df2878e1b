"""Opening files in folders where others may put what they like: pipes and devices are refused, and never waited for."""

import errno
import os
import stat
from pathlib import Path


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
    """Something else than a file is in a file's place."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))
