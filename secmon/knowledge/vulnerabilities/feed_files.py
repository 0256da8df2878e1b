"""The records of a feed: of a file, a folder or a zip archive, read one at a time."""

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from secmon.common.errors import os_text
from secmon.common.file_io import open_regular
from secmon.knowledge.vulnerabilities.osv import MAX_RECORD
from secmon.knowledge.vulnerabilities.records import FeedError
from secmon.knowledge.vulnerabilities.zip_directory import directory_bytes

MAX_DIRECTORY = 64 << 20
"""Bytes of the directory of an archive, of 700,000 members or so: it takes eight times as much memory."""
MAX_UNPACKED = 64 << 30
"""Bytes of all records of an archive."""
MAX_RATIO = 200
"""How many times its own size an archive may have unpacked; feeds have 10 to 30."""
_FREE_BYTES = 256 << 20
"""Bytes up to which the ratio does not count."""

_DRIVE = re.compile("[A-Za-z]:")
_ZIP = b"PK\x03\x04"

Progress = Callable[[int, int], object]
"""Gets how many records, or bytes, were read, and how many there are."""
RawRecord = tuple[str, bytes]
"""Where a record is, for messages, and its JSON."""


def records_in_folder(folder: Path, progress: Progress = lambda done, total: None) -> Iterator[RawRecord]:
    """Of the files ``*.json`` in the folder and below; links are not followed. Raises FeedError."""
    found = [Path(top) / name for top, _, names in os.walk(folder) for name in names if name.endswith(".json")]
    for done, path in enumerate(sorted(found), 1):
        try:
            with open(open_regular(path, os.O_RDONLY), "rb") as file:
                content = file.read(MAX_RECORD + 1)
        except OSError as error:
            raise FeedError(f"{path}: {os_text(error)}") from None
        if len(content) > MAX_RECORD:
            raise FeedError(f"{path} has more than {MAX_RECORD >> 20} MB")
        yield str(path), content
        progress(done, len(found))


def records_in_file(file: IO[bytes], progress: Progress = lambda done, total: None) -> Iterator[RawRecord]:
    """Of a zip archive; or one record, an array of records, or a record a line. Raises FeedError."""
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        archive = file.read(4).startswith(_ZIP)
        file.seek(0)
        yield from _in_archive(file, size, progress) if archive else _in_text(file, size, progress)
    except OSError as error:
        raise FeedError(os_text(error)) from None


def _in_text(file: IO[bytes], size: int, progress: Progress) -> Iterator[RawRecord]:
    if _has_lines(file):
        yield from _in_lines(file, size, progress)
        return
    content = file.read(MAX_RECORD + 1)
    if len(content) > MAX_RECORD:
        raise FeedError(f"it has more than {MAX_RECORD >> 20} MB: pack its records into a zip archive")
    try:
        raw = msgspec.json.decode(content, type=list[msgspec.Raw]) if content.lstrip()[:1] == b"[" else [content]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FeedError(f"it is not JSON: {error}") from None
    for done, each in enumerate(raw, 1):
        yield f"record {done}", bytes(each)
        progress(done, len(raw))


def _has_lines(file: IO[bytes]) -> bool:
    """Whether the first line is a whole record, and there are more."""
    line = file.readline(MAX_RECORD)
    more = file.read(1)
    file.seek(0)
    return bool(more) and line.startswith(b"{") and line.rstrip().endswith(b"}")


def _in_lines(file: IO[bytes], size: int, progress: Progress) -> Iterator[RawRecord]:
    done = number = 0
    while line := file.readline(MAX_RECORD + 1):
        done, number = done + len(line), number + 1
        if len(line) > MAX_RECORD:
            raise FeedError(f"line {number} has more than {MAX_RECORD >> 20} MB")
        if line.strip():
            yield f"line {number}", line
        progress(done, size)


def _in_archive(file: IO[bytes], size: int, progress: Progress) -> Iterator[RawRecord]:
    """Members ``*.json``. Nothing is written to the disk, whatever their names are."""
    bound = min(MAX_UNPACKED, max(_FREE_BYTES, MAX_RATIO * size))
    if directory_bytes(file) > MAX_DIRECTORY:
        raise FeedError(f"its directory has more than {MAX_DIRECTORY >> 20} MB: import it in parts")
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            for done, member in enumerate(members, 1):
                content = _member(archive, member, min(bound, MAX_RECORD))
                if content is None:
                    continue
                bound -= len(content)
                yield member.filename[:200], content
                progress(done, len(members))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise FeedError(f"it is not a whole zip archive: {error}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes | None:
    """The content of a member; None for what is no record. Raises FeedError."""
    name = PurePosixPath(member.filename.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or _DRIVE.match(member.filename):
        raise FeedError(f"the archive has a member {member.filename[:200]!r}, which is outside of it")
    if member.is_dir() or name.suffix != ".json" or stat.S_ISLNK(member.external_attr >> 16):
        return None
    with archive.open(member) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FeedError(f"the archive unpacks to too much: {member.filename[:200]!r} is beyond the limit")
    return content
