"""Reaching files below the installation folder without ever following a symbolic link.

Every part of a path is opened relative to its parent's descriptor, so that a user who can write in a replicated
folder cannot redirect the service, not even by replacing a folder by a link at the right moment.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: it may be a FIFO by now
_BLOCK = 1 << 20


@contextmanager
def opened_folder(root: Path, folder: str) -> Iterator[int]:
    """Descriptor of ``root/folder``, closed afterwards. ``OSError`` if it is missing, no folder, or behind a link."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folder.split("/") if folder else ():
            inner = os.open(part, OPEN_FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(folder: int, name: str) -> int:
    """Descriptor for reading the regular file ``name`` in an open folder. ``OSError`` if it is anything else."""
    descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{name!r} is not a regular file")
    return descriptor


class Listed(NamedTuple):
    """An entry of a folder; a link is neither a file nor a folder."""

    name: str
    is_folder: bool
    is_file: bool


def list_folder(root: Path, folder: str) -> list[Listed]:
    """What is in ``root/folder``, by name. ``OSError`` as :func:`opened_folder`."""
    try:
        with opened_folder(root, folder) as descriptor, os.scandir(descriptor) as entries:
            return sorted(
                Listed(each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False))
                for each in entries
            )
    except OSError as error:
        error.filename = os.fspath(root / folder)
        raise


def content_hash() -> "hashlib.blake2b":
    """A new hash of the kind that identifies content: BLAKE2b, 256 bits."""
    return hashlib.blake2b(digest_size=32)


def hash_file(folder: int, name: str) -> tuple[bytes, os.stat_result, os.stat_result]:
    """Content hash of a file in an open folder, with its status before and after reading."""
    descriptor = open_file(folder, name)
    try:
        before = os.fstat(descriptor)
        digest = content_hash()
        size = 0
        while size <= before.st_size and (block := os.read(descriptor, _BLOCK)):  # it may grow without end
            digest.update(block)
            size += len(block)
        return digest.digest(), before, os.fstat(descriptor)
    finally:
        os.close(descriptor)
