"""Where the records of a feed come from: a file, a folder, or a zip archive, read a record at a time."""

import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from secmon.common.errors import os_text
from secmon.common.file_io import read_regular
from secmon.knowledge.vulnerabilities.osv import MAX_RECORD
from secmon.knowledge.vulnerabilities.records import FeedError

MAX_RECORDS = 2_000_000
MAX_UNPACKED = 64 << 30
"""Bytes of all records of an archive."""
MAX_RATIO = 200
"""How many times its own size an archive may have unpacked; feeds have 10 to 30."""
_FREE_BYTES = 256 << 20
"""Bytes up to which the ratio does not count."""

Progress = Callable[[int, int], None]
"""Is told how many records, or bytes, were read, and how many there are."""
RawRecord = tuple[str, bytes]
"""Where a record is, for messages, and its JSON."""


def raw_records(path: Path, progress: Progress = lambda done, total: None) -> Iterator[RawRecord]:
    """The records at ``path``. Raises FeedError."""
    try:
        if path.is_dir():
            yield from _in_folder(path, progress)
        elif zipfile.is_zipfile(path):
            yield from _in_archive(path, progress)
        else:
            yield from _in_file(path, progress)
    except OSError as error:
        raise FeedError(f"{path}: {os_text(error)}") from None


def _in_folder(folder: Path, progress: Progress) -> Iterator[RawRecord]:
    """Files ``*.json`` of the folder and those below; links are not followed."""
    found = [Path(top) / name for top, _, names in os.walk(folder) for name in names if name.endswith(".json")]
    for done, path in enumerate(sorted(found), 1):
        if path.lstat().st_size > MAX_RECORD:
            raise FeedError(f"{path} has more than {MAX_RECORD >> 20} MB")
        yield str(path), read_regular(path)
        progress(done, len(found))


def _in_file(path: Path, progress: Progress) -> Iterator[RawRecord]:
    """One record, an array of records, or a record a line."""
    size = path.stat().st_size
    if path.suffix in (".jsonl", ".ndjson"):
        yield from _in_lines(path, size, progress)
        return
    if size > MAX_RECORD:
        raise FeedError(f"{path} has more than {MAX_RECORD >> 20} MB: pack its records into a zip archive")
    content = read_regular(path, follow=True)
    try:
        raw = msgspec.json.decode(content, type=list[msgspec.Raw]) if content.lstrip()[:1] == b"[" else [content]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FeedError(f"{path} is not JSON: {error}") from None
    for done, each in enumerate(raw, 1):
        yield f"{path}, record {done}", bytes(each)
        progress(done, len(raw))


def _in_lines(path: Path, size: int, progress: Progress) -> Iterator[RawRecord]:
    done = 0
    with path.open("rb") as file:
        for number in range(1, MAX_RECORDS + 1):
            line = file.readline(MAX_RECORD + 1)
            if not line:
                return
            if len(line) > MAX_RECORD:
                raise FeedError(f"{path}, line {number} has more than {MAX_RECORD >> 20} MB")
            done += len(line)
            if line.strip():
                yield f"{path}, line {number}", line
            progress(done, size)
    raise FeedError(f"{path} has more than {MAX_RECORDS} lines")


def _in_archive(path: Path, progress: Progress) -> Iterator[RawRecord]:
    """Members ``*.json``. Nothing is written to the disk, whatever their names are."""
    bound = min(MAX_UNPACKED, max(_FREE_BYTES, MAX_RATIO * path.stat().st_size))
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_RECORDS:
                raise FeedError(f"{path} has more than {MAX_RECORDS} members")
            for done, member in enumerate(members, 1):
                content = _member(archive, member, min(bound, MAX_RECORD))
                if content is None:
                    continue
                bound -= len(content)
                yield f"{path}, {member.filename[:200]}", content
                progress(done, len(members))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise FeedError(f"{path} is not a whole zip archive: {error}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes | None:
    """The content of a member; None for what is no record. Raises FeedError."""
    name = PurePosixPath(member.filename.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or ":" in name.parts[:1]:
        raise FeedError(f"the archive has a member {member.filename[:200]!r}, which is outside of it")
    if member.is_dir() or name.suffix != ".json" or stat.S_ISLNK(member.external_attr >> 16):
        return None
    with archive.open(member) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FeedError(f"the archive unpacks to too much: {member.filename[:200]!r} is beyond the limit")
    return content
