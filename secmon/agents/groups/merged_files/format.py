"""The merged file: all files of a group in one, as agents receive it (agent-link.md 7.2).

A line ``#tag``, then for each file a line ``!size name`` and its bytes, with nothing between one file and the next.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from secmon.common.file_io import write_file

MAX_NAME = 200
"""Characters of a file's path below the group's folder; longer ones are not shared."""

MAX_MERGED = 256 << 20
"""Maximum size in bytes of a merged file: far more than can be sent to an agent in pieces of 900."""

# Agents on Windows take a backslash for a separator, and a colon in the second place for a drive.
_PART = r"(?!\.{1,2}(?:/|\Z))[^/\\\x00-\x1f\x7f]+"
_SHARABLE = re.compile(rf"(?=.{{1,{MAX_NAME}}}\Z)(?!.:){_PART}(?:/{_PART})*")
_HEADER = re.compile(rb"!(\d{1,12}) ([^\n]+)", re.ASCII)


class MergedFile(NamedTuple):
    """One file in a merged file; ``name`` is its path below the group's folder, with ``/`` between its parts."""

    name: str
    content: bytes


class Merged(NamedTuple):
    """The content of a merged file, in its order; of equal names agents keep the later one."""

    tag: str
    files: tuple[MergedFile, ...]


class MergedError(ValueError):
    """Invalid merged file; the text gives position and reason."""


def merge(tag: str, files: Iterable[MergedFile]) -> bytes:
    """The merged file of ``files``, in their order. Raises MergedError above :data:`MAX_MERGED`."""
    pieces = [b"#%s\n" % os.fsencode(tag)]
    size = 0
    for name, content in files:
        size += len(content)
        if size > MAX_MERGED:
            raise MergedError(f"{name}: the files have more than {MAX_MERGED} bytes together")
        pieces += (b"!%d %s\n" % (len(content), os.fsencode(name)), content)
    return b"".join(pieces)


def split(data: bytes) -> Merged:
    """Parse a merged file; lines with ``#`` may precede any file, the first one is the tag.

    Raises MergedError for a line that is no header, a size beyond the end, and names that lead out of a folder.
    """
    tag, files = None, []
    for line, content in _pieces(data):
        if content is None:
            tag = line if tag is None else tag
        else:
            files.append(MergedFile(line, content))
    return Merged(tag or "", tuple(files))


def _pieces(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Name and content of each file; of comment lines the text and None."""
    position = 0
    while position < len(data):
        end = data.find(b"\n", position)
        if end < 0:
            raise MergedError(f"byte {position}: a header without an end of line")
        line, position = data[position:end], end + 1
        if line.startswith(b"#"):
            yield os.fsdecode(line[1:]), None
            continue
        header = _HEADER.fullmatch(line)
        if header is None:
            raise MergedError(f"byte {end - len(line)}: {line[:80]!r} is no header")
        name, size = os.fsdecode(header[2]), int(header[1])
        if not sharable_name(name):
            raise MergedError(f"byte {end - len(line)}: the name {name[:80]!r} is not allowed")
        if len(data) - position < size:
            raise MergedError(f"{name}: {size} bytes announced, {len(data) - position} present")
        yield name, data[position : position + size]
        position += size


def sharable_name(name: str) -> bool:
    """Whether ``name`` is valid in a header and stays below the folder of an agent, on every system."""
    return _SHARABLE.fullmatch(name) is not None


def latest(files: Iterable[MergedFile]) -> Mapping[str, bytes]:
    """Content by name, of repeated names the last, as agents keep them."""
    return dict(files)


def unpack(data: bytes, folder: Path) -> list[str]:
    """Write the files of a merged file below ``folder``, which is made if absent; their names.

    Raises MergedError before anything is written, and OSError.
    """
    files = latest(split(data).files)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    return list(files)
