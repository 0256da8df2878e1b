"""The archive inside the encryption: a compressed tar file with what it holds first, and a proof of its end last.

Who encrypts for a public key need not be known, so what is read may be hostile: only plain files with paths below the
installation are accepted, nothing is followed, and no size is believed.
"""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Literal, TypeVar

import msgspec

from secmon.backup.contents import Item, belongs
from secmon.backup.fault import BackupError

FORMAT = 1
MAX_FILES = 2_000_000
_ABOUT, _END = "backup.json", "end.json"
_MAX_JSON = 64 << 10
_MAX_NAMES = 64 << 10
"""Bytes of a header with a long name, which ``tarfile`` reads into memory."""
_MAX_PADDING = 1 << 20
_LEVEL = 3
_BLOCK = 1 << 20


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of. ``size``: bytes of its files. ``created``: seconds since 1970."""

    format: int = FORMAT
    version: str
    node: str
    role: Literal["master", "worker", "single"]
    created: float
    files: int
    size: int
    without: tuple[str, ...] = ()
    recorded: bool = False
    """Whether it holds what a store of record had."""


class _End(msgspec.Struct, frozen=True):
    files: int
    size: int


def write_archive(
    out: IO[bytes], folder: Path, about: About, items: Sequence[Item], progress: Callable[[int], None]
) -> None:
    """Write the ``items`` below ``folder``; ``progress`` gets the bytes done. Raises OSError."""
    done = 0
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        _add_json(tar, _ABOUT, about)
        for item in items:
            header = tarfile.TarInfo(item.path)
            header.size, header.mode, header.uid = item.size, item.mode, 0 if item.roots else 1
            with open(folder / item.path, "rb") as file:
                tar.addfile(header, file)
            done += item.size
            progress(done)
        _add_json(tar, _END, _End(len(items), sum(item.size for item in items)))


def _add_json(tar: tarfile.TarFile, name: str, content: msgspec.Struct) -> None:
    data = msgspec.json.encode(content)
    header = tarfile.TarInfo(name)
    header.size, header.mode = len(data), 0o600
    tar.addfile(header, BytesIO(data))


Take = Callable[[Item, IO[bytes]], None]
"""Called with each file and its content, which it need not read."""


def read_archive(stream: IO[bytes], begin: Callable[[About], None], take: Take) -> About:
    """Read an archive to its end. ``begin`` is called first, and may refuse.

    Raises BackupError for anything that ``write_archive`` does not write.
    """
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
            with tarfile.open(fileobj=packed, mode="r|", tarinfo=_CheckedHeader) as tar:
                about = _read_files(tar, begin, take)
            _expect_end(packed)
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, RecursionError) as error:
        raise BackupError(f"the backup is damaged: {error}") from error
    return about


def _read_files(tar: tarfile.TarFile, begin: Callable[[About], None], take: Take) -> About:
    headers = iter(tar)
    about = _read_json(tar, next(headers, None), _ABOUT, About)
    if about.format != FORMAT:
        raise BackupError(f"the backup has format {about.format}: it needs a later version of secmon ({about.version})")
    begin(about)
    seen: set[str] = set()
    size = 0
    for header in headers:
        if header.name == _END:
            end = _read_json(tar, header, _END, _End)
            if end != _End(len(seen), size):
                raise BackupError("the backup is damaged: it does not hold what it says")
            return about
        item = _checked(header, seen)
        content = tar.extractfile(header)
        assert content is not None, "it is a plain file"
        take(item, content)
        seen.add(item.path)
        size += item.size
        tar.members = []  # type: ignore[attr-defined]  # otherwise every header is kept in memory
    raise BackupError("the backup is damaged: its end is missing")


T = TypeVar("T", bound=msgspec.Struct)


def _read_json(tar: tarfile.TarFile, header: tarfile.TarInfo | None, name: str, kind: type[T]) -> T:
    if header is None or header.name != name or header.size > _MAX_JSON:
        raise BackupError(f"the backup is damaged: no {name}")
    content = tar.extractfile(header)
    assert content is not None, "it is a plain file"
    return msgspec.json.decode(content.read(), type=kind)


def _checked(header: tarfile.TarInfo, seen: set[str]) -> Item:
    """Raises BackupError for a file that no backup has."""
    path = header.name
    parts = path.split("/")
    plain = path.isprintable() and not path.startswith("/") and not {"", ".", ".."}.intersection(parts)
    if not plain or len(parts) < 2 or not belongs(path):
        raise BackupError(f"the backup is refused: no backup of secmon holds {path[:200]!r}")
    if path in seen or len(seen) >= MAX_FILES:
        raise BackupError(f"the backup is refused: {path[:200]!r} is in it twice, or there are too many files")
    return Item(path, header.size, header.mode & 0o775, header.uid == 0)


def _expect_end(packed: gzip.GzipFile) -> None:
    """Read to the end, where the checksums are; only padding may be left."""
    rest = 0
    while block := packed.read(_BLOCK):
        rest += len(block)
        if rest > _MAX_PADDING or block.strip(b"\0"):
            raise BackupError("the backup is refused: something follows its end")


class _CheckedHeader(tarfile.TarInfo):
    """Refuses, before ``tarfile`` acts on it, every header but those of plain files and of long names."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_CheckedHeader":
        header = super().frombuf(buf, encoding, errors)
        if header.type == tarfile.GNUTYPE_LONGNAME and header.size <= _MAX_NAMES:
            return header
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise BackupError("the backup is refused: it holds something else than plain files")
        return header
