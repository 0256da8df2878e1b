"""The files that the master replicates, in the store of record: by content hash, in parts of a bounded size."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sqlalchemy import Connection, delete, exists, select
from sqlalchemy.dialects.postgresql import insert

from secmon.cluster.record.schema import contents, files
from secmon.common.file_io import open_regular
from secmon.common.files.categories import category_of
from secmon.common.files.manifest import Delta, Entry

PART_BYTES = 4 << 20
_DERIVED = "merged.mg"
"""Made from other files by each master: not recorded."""


class FileChanged(Exception):
    """A file is no longer what was seen; it will be seen again."""


def is_recorded(path: str) -> bool:
    """Whether a replicated file is recorded, too."""
    return category_of(path) is not None and path.rpartition("/")[2] != _DERIVED


def recorded_files(connection: Connection) -> dict[str, Entry]:
    """All recorded files by path."""
    found = connection.execute(select(files.c.path, files.c.hash, files.c.size))
    return {row.path: Entry(bytes.fromhex(row.hash), row.size) for row in found}


def put_files(connection: Connection, root: Path, changed: Delta) -> None:
    """Record changes of files below ``root``. Raises FileChanged for a content that is not the one that was seen."""
    for path, entry in changed.items():
        if entry is None:
            connection.execute(delete(files).where(files.c.path == path))
            continue
        _put_content(connection, root / path, entry)
        row = insert(files).values(path=path, hash=entry.hash.hex(), size=entry.size)
        new = {"hash": row.excluded.hash, "size": row.excluded.size}
        connection.execute(row.on_conflict_do_update(index_elements=[files.c.path], set_=new))
    connection.execute(delete(contents).where(~exists().where(files.c.hash == contents.c.hash)))


def read_content(connection: Connection, entry: Entry) -> Iterator[bytes]:
    """The parts of a content. Raises LookupError when one is missing."""
    key, part, size = entry.hash.hex(), 0, 0
    while size < entry.size or part == 0:
        found = select(contents.c.content).where(contents.c.hash == key, contents.c.part == part)
        data = connection.execute(found).scalar_one_or_none()
        if data is None:
            raise LookupError(f"part {part} of the content {key}")
        yield bytes(data)
        part, size = part + 1, size + len(data)


def differences(recorded: Mapping[str, Entry], here: Mapping[str, Entry]) -> Delta:
    """What changes ``recorded`` into the recorded part of ``here``."""
    mine = {path: entry for path, entry in here.items() if is_recorded(path)}
    changed: dict[str, Entry | None] = {path: entry for path, entry in mine.items() if recorded.get(path) != entry}
    return changed | dict.fromkeys(path for path in recorded if path not in mine)


def _put_content(connection: Connection, path: Path, entry: Entry) -> None:
    key = entry.hash.hex()
    if connection.execute(select(contents.c.part).where(contents.c.hash == key).limit(1)).first() is not None:
        return
    digest = hashlib.blake2b(digest_size=len(entry.hash))
    try:
        with open(open_regular(path, 0), "rb") as file:
            for part, data in enumerate(_parts(file.read)):
                digest.update(data)
                connection.execute(insert(contents).values(hash=key, part=part, content=data))
    except OSError as error:
        raise FileChanged(str(error)) from error
    if digest.digest() != entry.hash:
        raise FileChanged(f"{path} has changed while it was recorded")


def _parts(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """At least one part, however short."""
    data = read(PART_BYTES)
    yield data
    while len(data) == PART_BYTES and (data := read(PART_BYTES)):
        yield data
