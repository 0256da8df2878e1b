"""The folders of the store: a generation for each rebuild, in it a partition for each stretch of time.

``queue/alert-store/current`` names the generation in use. Another one is built beside it and takes its place in one
step. A generation is never changed into another: who has one open goes on with it, until it looks again.
"""

import os
import re
import shutil
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

from secmon.common.file_io import write_file

FORMAT = 1
"""Of the index: the names of generations begin with it, so that none of another format is used."""
_PARTITION = re.compile(r"(\d{4}-\d\d-\d\d)-(\d{17})", re.ASCII)
_CURRENT = "current"


class PartitionName(NamedTuple):
    """A stretch of alerts: the day of the file that it begins in, and the number of its first alert."""

    day: date
    first: int

    def __str__(self) -> str:
        return f"{self.day.isoformat()}-{self.first:017d}"


def current(folder: Path) -> Path:
    """The generation in use, which may not exist yet. Raises OSError."""
    return folder / _current_name(folder)


def following(folder: Path) -> Path:
    """Where the next generation is built, after what is left of an earlier attempt is gone. Raises OSError."""
    form, number = _current_name(folder).split("-")
    path = folder / f"{form}-{int(number) + 1:06d}"
    remove(path)
    return path


def use(path: Path) -> None:
    """Make ``path`` the generation in use. Raises OSError."""
    write_file(path.parent / _CURRENT, path.name.encode())


def remove_earlier(generation: Path) -> None:
    """Delete the generations before ``generation``, and those of other formats. Raises OSError."""
    for path in generation.parent.iterdir():
        other_format = path.name.split("-")[0] != generation.name.split("-")[0]
        if path.is_dir() and (other_format or path.name < generation.name):
            remove(path)


def partitions(generation: Path) -> list[PartitionName]:
    """Oldest first. Raises OSError."""
    try:
        names = os.listdir(generation)
    except FileNotFoundError:
        return []
    matches = (_PARTITION.fullmatch(name) for name in names)
    found = (PartitionName(date.fromisoformat(one[1]), int(one[2])) for one in matches if one)
    return sorted(found, key=lambda name: (name.first, name.day))


def size(partition: Path) -> int:
    """Bytes of a partition; files that vanish meanwhile do not count."""
    total = 0
    with suppress(FileNotFoundError), os.scandir(partition) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                total += entry.stat().st_size
    return total


def remove(path: Path) -> None:
    """Delete a folder in whole: it has another name before its first file goes. Raises OSError."""
    aside = path.with_name(f".{path.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside)


def _current_name(folder: Path) -> str:
    try:
        name = (folder / _CURRENT).read_text()
    except FileNotFoundError:
        name = ""
    return name if re.fullmatch(rf"v{FORMAT}-\d{{6}}", name) else f"v{FORMAT}-000000"
