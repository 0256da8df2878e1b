"""Where tests have their installations.

The product makes every file it writes durable, so on a disk a test waits mostly for that, and no test takes the power
away. Where memory has the room, folders of tests are there.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[1]

_IN_MEMORY = Path("/dev/shm")
_ENOUGH = 4 * 1024**3
"""Bytes: a few clusters, one of them with large files, and what failed tests leave."""


def short_root() -> Path:
    """The folder for temporary ones whose sockets must fit into 107 bytes."""
    return _IN_MEMORY if _usable() else Path("/tmp")


def use_memory() -> None:
    """Have this process and those it starts make temporary folders in memory, unless another folder is set."""
    if "TMPDIR" not in os.environ and _usable():
        os.environ["TMPDIR"] = tempfile.tempdir = str(_IN_MEMORY)


def _usable() -> bool:
    try:
        system = os.statvfs(_IN_MEMORY)
    except OSError:
        return False
    # Containers give it little room, and often no right to run scripts.
    room = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available // 2)
    return room >= _ENOUGH and not system.f_flag & os.ST_NOEXEC and os.access(_IN_MEMORY, os.W_OK)


def files_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All regular files and their contents, as they are while others may change them: one that goes is left out.

    So is one in whose folder's place a file comes.
    """
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            try:
                if path.is_file() and not path.is_symlink():
                    yield path, path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
