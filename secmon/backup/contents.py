"""What of an installation a backup holds: all files but those that are made again, or of this run only."""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from secmon.common.file_io import open_regular

PARTS: Mapping[str, tuple[str, ...]] = {
    "inventory": ("queue/db/inventory.db",),
    "advisories": ("etc/advisories", "var/db/previous-advisories"),
    "packages": ("var/wpk",),
}
"""What an operator may leave out, because it can be had again: from agents, by an import, from where it came."""

_TOP = frozenset({"active-response", "api", "bin", "etc", "integrations", "logs", "queue", "ruleset", "stats", "var"})
_LEFT_OUT = frozenset(
    {
        *("logs", "queue/alerts", "queue/cluster", "queue/sockets", "queue/outputs", "queue/alert-store"),
        *("queue/events", "queue/events-inventory", "queue/events-local"),
        *("var/download", "var/run", "var/upgrade"),
    }
)
"""Folders of one run of the node, and its logs."""
_KEPT = "logs/audit"
_LEFT_OUT_NAMES = re.compile(
    r"(?:queue|api)/.*(?:-wal|-shm|-journal|\.damaged-\d+|\.version-\d+-\d+)$|(?:.*/)?\.[^/]*\.tmp$", re.DOTALL
)
"""What SQLite keeps beside a store that is open, copies of stores, and files that are being written."""
_WAL = b"\2\2"
"""Bytes 18 and 19 of a SQLite file that processes write to."""


class Item(NamedTuple):
    """A file: its path below the installation, its permission bits, and whether root owns it."""

    path: str
    size: int
    mode: int
    roots: bool


def belongs(path: str, without: Collection[str] = ()) -> bool:
    """Whether a backup holds the file or folder ``path``; ``without``: names of :data:`PARTS`."""
    out = {*_LEFT_OUT, *(each for part in without for each in PARTS[part])}
    ways = [path, *(str(parent) for parent in Path(path).parents)]
    kept = _KEPT in ways or _KEPT.startswith(f"{path}/")
    top = path.partition("/")[0] in _TOP
    return top and not _LEFT_OUT_NAMES.match(path) and (kept or not out.intersection(ways))


def walk(root: Path, without: Collection[str] = (), folder: str = "") -> Iterator[Item]:
    """The regular files that belong, by name; links and pipes do not. Raises OSError."""
    with os.scandir(root / folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if not belongs(path, without):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from walk(root, without, path)
        elif entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            yield Item(path, status.st_size, stat.S_IMODE(status.st_mode) & 0o775, status.st_uid == 0)


def is_store(path: Path) -> bool:
    """Whether this is a SQLite file that other processes may be writing to. Raises OSError."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        head = file.read(20)
    return head.startswith(b"SQLite format 3\0") and head[18:20] == _WAL
