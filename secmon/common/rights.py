"""Root's rights, for the few steps that need them, in a process that works with those of the service user.

A process that root has started works with the effective ids of the service user (``daemons.privileges.act_as``): the
kernel then refuses whatever that user may not do, so a link planted in a folder that the user may write leads no
further than the user itself could go. Only its real id is still root's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secmon.common.files.tree import open_file, opened_folder
from secmon.common.regular import read_regular


@contextmanager
def as_root() -> Iterator[None]:
    """Root's rights where root has started this process and has not given them up for good; otherwise no change.

    They hold for all threads: to be used where no other thread opens files. Nothing inside may use a path through a
    folder that the service user can write.
    """
    before = os.geteuid()
    if before == 0 or os.getuid() != 0:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(before)


def read_kept(root: Path, path: Path) -> bytes:
    """The content of ``path`` below ``root``, a file that an administrator may have kept for root alone.

    What only root may read is read as root when it is root's own and no link leads to it: whoever may write to a folder
    on the way could have made the link. Raises OSError.
    """
    try:
        return read_regular(path, follow=True)
    except PermissionError as refused:
        try:
            with as_root(), opened_folder(root, path.parent.relative_to(root).as_posix()) as folder:
                return _read_roots(open_file(folder, path.name))
        except OSError:
            raise refused from None


def _read_roots(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != 0 or status.st_nlink != 1:
            raise PermissionError
        return file.read()
