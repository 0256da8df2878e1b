"""The advisories of one ecosystem: a SQLite file that is built once, and only read afterwards.

Its digest follows from the ids and times of its records, so it is equal on all nodes that have the same ones.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from secmon.knowledge.vulnerabilities.records import Advisory, FeedError, Rating

FORMAT = "1"
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, modified TEXT NOT NULL, content BLOB NOT NULL
);
CREATE TABLE affected (
  name TEXT NOT NULL, record INTEGER NOT NULL, part INTEGER NOT NULL, since BLOB NOT NULL, until BLOB,
  condition TEXT NOT NULL, rating BLOB NOT NULL, hotfixes TEXT NOT NULL,
  PRIMARY KEY (name, record, part)
) WITHOUT ROWID;
"""
"""``affected``: ranges of versions as keys; ``hotfixes``: separated by blanks."""

_HITS = (
    "SELECT record, condition, rating, hotfixes FROM affected "
    "WHERE name = ? AND since <= ? AND (until IS NULL OR until > ?)"
)
_CONTENT = "SELECT content FROM records WHERE number = ?"
_COUNTS = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM affected)"

encode = msgspec.msgpack.Encoder().encode
decode_advisory = msgspec.msgpack.Decoder(Advisory).decode
decode_rating = msgspec.msgpack.Decoder(Rating).decode


class Hit(NamedTuple):
    """A version is affected by the record with this number."""

    record: int
    condition: str
    rating: Rating
    hotfixes: Sequence[str]


class AdvisoryFile:
    """An open file. For one thread at a time. All calls block, and raise FeedError for a damaged file."""

    def __init__(self, path: Path) -> None:
        """Raises FeedError for a file that is none, or of another release."""
        self.path = path
        try:
            # It is replaced, never changed: without locks and look-outs for changes.
            uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            try:
                meta = dict(self._connection.execute("SELECT name, value FROM meta"))
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise FeedError(f"{path} cannot be read: {error}") from None
        if meta.get("format") != FORMAT:
            self._connection.close()
            raise FeedError(f"{path} was written by another release of secmon: import the feed again")
        self.ecosystem: str = meta["ecosystem"]
        self.digest: str = meta["digest"]

    def hits(self, name: str, key: bytes) -> list[Hit]:
        """What affects the version ``key`` of the package ``name``."""
        try:
            rows = self._connection.execute(_HITS, (name, key, key)).fetchall()
            return [Hit(row[0], row[1], decode_rating(row[2]), row[3].split()) for row in rows]
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise FeedError(f"{self.path} is damaged: {error}") from None

    def advisory(self, record: int) -> Advisory:
        """The record with this number."""
        try:
            [content] = self._connection.execute(_CONTENT, (record,)).fetchone()
            return decode_advisory(content)
        except (sqlite3.Error, TypeError, msgspec.DecodeError) as error:
            raise FeedError(f"{self.path} is damaged: {error}") from None

    def counts(self) -> tuple[int, int]:
        """How many records and ranges it has."""
        try:
            records, ranges = self._connection.execute(_COUNTS).fetchone()
        except sqlite3.Error as error:
            raise FeedError(f"{self.path} is damaged: {error}") from None
        return records, ranges

    def newest(self) -> str:
        """When the newest of its records was modified; empty when it has none."""
        try:
            [found] = self._connection.execute("SELECT max(modified) FROM records").fetchone()
        except sqlite3.Error as error:
            raise FeedError(f"{self.path} is damaged: {error}") from None
        return found or ""

    def close(self) -> None:
        self._connection.close()


def write_meta(connection: sqlite3.Connection, ecosystem: str) -> None:
    """Set what a file says of itself, once its records are there."""
    digest = hashlib.blake2b(FORMAT.encode(), digest_size=16)
    for record, modified in connection.execute("SELECT id, modified FROM records ORDER BY id"):
        digest.update(f"{record} {modified}\n".encode())
    meta = {"ecosystem": ecosystem, "format": FORMAT, "digest": digest.hexdigest()}
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())


def file_name(ecosystem: str) -> str:
    """``Red Hat:enterprise_linux:9`` is ``red-hat-enterprise_linux-9.db``."""
    return "".join(each if each.isalnum() or each in "._" else "-" for each in ecosystem.lower()) + ".db"


def advisory_files(folder: Path) -> Iterator[Path]:
    """The files in ``folder``, by name; none where it does not exist."""
    yield from sorted(folder.glob("*.db"))


def ecosystem_in(path: Path) -> str:
    """The ecosystem of the file at ``path``. Raises FeedError."""
    with closing(AdvisoryFile(path)) as file:
        return file.ecosystem
