"""Records of a feed on their way into the advisory files: a SQLite file beside, so that memory is bounded."""

import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from secmon.knowledge.vulnerabilities.advisory_file import TABLES, encode, write_meta
from secmon.knowledge.vulnerabilities.records import AffectedRange, FeedRecord

_STAGING = """
CREATE TABLE seen (id TEXT PRIMARY KEY, modified TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
  number INTEGER PRIMARY KEY, ecosystem TEXT NOT NULL, id TEXT NOT NULL, modified TEXT NOT NULL, content BLOB NOT NULL
);
CREATE TABLE affected (
  record INTEGER NOT NULL, part INTEGER NOT NULL, name TEXT NOT NULL, since BLOB NOT NULL, until BLOB,
  condition TEXT NOT NULL, rating BLOB NOT NULL, hotfixes TEXT NOT NULL, PRIMARY KEY (record, part)
) WITHOUT ROWID;
"""
_NEWER = (
    "INSERT INTO seen VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET modified = excluded.modified "
    "WHERE excluded.modified > modified"
)
_HAS_NEWER = (
    "SELECT 1 FROM old_file.records AS old JOIN main.seen AS seen ON seen.id = old.id "
    "WHERE seen.modified > old.modified LIMIT 1"
)
_STALE = (
    "CREATE TEMP TABLE stale AS SELECT number FROM main.records AS old "
    "JOIN s.seen AS seen ON seen.id = old.id WHERE seen.modified > old.modified"
)
_TAKEN = (
    "CREATE TEMP TABLE taken AS SELECT found.id AS id, max(found.number) AS number "
    "FROM s.records AS found JOIN s.seen AS seen ON seen.id = found.id AND seen.modified = found.modified "
    "WHERE found.ecosystem = ? AND found.id NOT IN (SELECT id FROM main.records) GROUP BY found.id ORDER BY found.id"
)
"""A feed may have a record several times: the last one of the latest counts."""


class Staging:
    """Records of a feed. A context manager: the files are closed at the end; the owner deletes ``folder``."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is new and empty."""
        self.folder = folder
        self._path = folder / "staging"
        self._connection = sqlite3.connect(f"file:{quote(str(self._path))}", uri=True, isolation_level=None)
        # It is deleted whatever happens: no need to survive anything.
        self._connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _STAGING)
        self._next = 1

    def __enter__(self) -> "Staging":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, records: Iterable[FeedRecord]) -> None:
        """Raises sqlite3.Error when the disk is full."""
        self._connection.execute("BEGIN")
        for record in records:
            self._add(record)
        self._connection.execute("COMMIT")

    def _add(self, record: FeedRecord) -> None:
        self._connection.execute(_NEWER, (record.advisory.id, record.modified))
        content = encode(record.advisory)
        for ecosystem, ranges in record.ranges.items():
            number, self._next = self._next, self._next + 1
            row = (number, ecosystem, record.advisory.id, record.modified, content)
            self._connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?)", row)
            rows = [(number, part, *_columns(each)) for part, each in enumerate(ranges)]
            self._connection.executemany("INSERT INTO affected VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def ecosystems(self) -> list[str]:
        """Those of the records, in the order of their names."""
        found = self._connection.execute("SELECT DISTINCT ecosystem FROM records ORDER BY ecosystem")
        return [ecosystem for (ecosystem,) in found]

    def has_newer(self, old: Path) -> bool:
        """Whether the feed has newer versions of records in the file ``old``. Raises sqlite3.Error."""
        self._connection.execute("ATTACH ? AS old_file", (f"file:{quote(str(old))}?mode=ro&immutable=1",))
        try:
            return self._connection.execute(_HAS_NEWER).fetchone() is not None
        finally:
            self._connection.execute("DETACH old_file")

    def build(self, ecosystem: str, old: Path | None, target: Path) -> bool:
        """Write the file ``target``: the records of ``old``, and those of the feed where they are newer.

        False, and no file, when nothing is newer. Records of ``old`` that the feed has for other ecosystems only go.
        Raises sqlite3.Error.
        """
        work = self.folder / "building"
        work.unlink(missing_ok=True)
        if old is not None:
            shutil.copyfile(old, work)
        with closing(sqlite3.connect(work, isolation_level=None)) as connection:
            connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + ("" if old else TABLES))
            connection.execute("ATTACH ? AS s", (str(self._path),))
            if not _merge(connection, ecosystem) and old is not None:
                return False
            write_meta(connection, ecosystem)
            connection.execute("DETACH s")
            connection.execute("VACUUM INTO ?", (str(target),))
        work.unlink()
        _sync(target)
        return True


def _merge(connection: sqlite3.Connection, ecosystem: str) -> int:
    """Replace and add records; how many have changed."""
    execute = connection.execute
    execute(_STALE)
    execute("DELETE FROM main.affected WHERE record IN (SELECT number FROM stale)")
    gone = execute("DELETE FROM main.records WHERE number IN (SELECT number FROM stale)").rowcount
    execute(_TAKEN, (ecosystem,))
    added = execute(
        "INSERT INTO main.records (id, modified, content) SELECT id, modified, content FROM temp.taken "
        "JOIN s.records USING (id, number) ORDER BY id"
    ).rowcount
    execute(
        "INSERT INTO main.affected SELECT name, own.number, part, since, until, condition, rating, hotfixes "
        "FROM temp.taken JOIN main.records AS own USING (id) JOIN s.affected ON record = taken.number "
        "ORDER BY name, own.number, part"
    )
    return gone + added


def _columns(found: AffectedRange) -> tuple[object, ...]:
    hotfixes = " ".join(found.hotfixes)
    return found.name, found.since, found.until, found.condition, encode(found.rating), hotfixes


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
