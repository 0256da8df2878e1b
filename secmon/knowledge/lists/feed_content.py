"""Reading what a feed sends: the entries of a list, whatever its format."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import msgspec

from secmon.knowledge.lists.feeds_yml import Format, ListFeed
from secmon.knowledge.lists.indicators import normal_key
from secmon.knowledge.lists.list_text import Entry, moment_of, read_line, write_line

_COMMENT = ("#", ";", "//")
_UNFIT = re.compile(r'[\x00-\x1f\x7f"]+')
"""What the value of an entry cannot hold."""


class FeedError(Exception):
    """A feed that is broken; says why."""


class FeedContent(NamedTuple):
    """Entries by key; ``left_out``: lines that are none, among them those of another kind of indicator."""

    entries: dict[bytes, Entry]
    left_out: int


class _Fields(NamedTuple):
    """One line of a feed, as it is written there."""

    key: str
    value: str = ""
    expiry: str = ""


def read_feed(file: IO[bytes], feed: ListFeed, now: int) -> FeedContent:
    """The entries that ``file`` holds; expired ones (``now`` in seconds since 1970) are left away.

    Raises FeedError when it has none, more than the feed may have, or more lines that are no entries than entries: it
    is an error page then, or has another format; and DownloadError as ``file`` does.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    entries: dict[bytes, Entry] = {}
    used = left_out = 0
    for fields in _READERS[feed.format](text, feed):
        entry = None if fields is None else _entry(fields, feed)
        if entry is None:
            left_out += 1
            continue
        used += 1
        if entry.until is None or entry.until > now:
            entries.setdefault(entry.key, entry)
        if len(entries) > feed.max_entries:
            raise FeedError(f"it has more than {feed.max_entries} entries")
    if used < left_out:
        raise FeedError(f"{left_out} of its {used + left_out} lines are no entries of the kind {feed.kind}")
    if not used:
        raise FeedError("it has no entries")
    return FeedContent(entries, left_out)


def _entry(fields: _Fields, feed: ListFeed) -> Entry | None:
    key = normal_key(feed.kind, fields.key)
    until = moment_of(fields.expiry.strip()) if fields.expiry.strip() else None
    if key is None or (until is None and fields.expiry.strip()):
        return None
    value = _UNFIT.sub(" ", fields.value or feed.value)
    entry = Entry(key.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"), until)
    try:
        write_line(entry.key, entry.value)
    except ValueError:
        return None
    return entry


def _lines(text: IO[str], feed: ListFeed) -> Iterator[_Fields | None]:
    for line in text:
        words = line.split(None, 1)
        if words and not words[0].startswith(_COMMENT):
            yield _Fields(words[0].rstrip(",;"))


def _list(text: IO[str], feed: ListFeed) -> Iterator[_Fields | None]:
    for line in text:
        found = read_line(line.removesuffix("\n").encode("utf-8", "surrogateescape"))
        if found is not None:
            yield _Fields(*(each.decode("utf-8", "surrogateescape") for each in found))
        elif line.strip() and not line.startswith(_COMMENT):
            yield None


def _csv(text: IO[str], feed: ListFeed) -> Iterator[_Fields | None]:
    rows = csv.reader((line for line in text if line.strip() and not line.startswith("#")), delimiter=feed.delimiter)
    named = not all(field.isdigit() for field in (feed.key_field, feed.value_field, feed.expiry_field) if field)
    try:
        header = [name.strip() for name in next(rows, [])] if named else []
        columns = [_column(field, header) for field in (feed.key_field, feed.value_field, feed.expiry_field)]
        for row in rows:
            if columns[0] is None or columns[0] >= len(row):
                yield None
            else:
                yield _Fields(*(row[each] if each is not None and each < len(row) else "" for each in columns))
    except csv.Error as error:
        raise FeedError(f"line {rows.line_num} is no CSV: {error}") from None


def _column(field: str, header: list[str]) -> int | None:
    """The index of a column that is given by its number from 1, or by its name."""
    if not field:
        return None
    if field in header:
        return header.index(field)
    if field.isdigit() and int(field) > 0:
        return int(field) - 1
    raise FeedError(f"it has no column {field!r}")


def _json(text: IO[str], feed: ListFeed) -> Iterator[_Fields | None]:
    for line in filter(str.strip, text):
        try:
            item = msgspec.json.decode(line.encode("utf-8", "surrogateescape"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield None
            continue
        key, value, expiry = (_member(item, path) for path in (feed.key_field, feed.value_field, feed.expiry_field))
        yield _Fields(key, value, expiry) if key else None


def _member(item: Any, path: str) -> str:
    """The text or number at a dotted path; empty where there is none."""
    for name in path.split(".") if path else ():
        item = item.get(name) if isinstance(item, dict) else None
    return str(item) if isinstance(item, str | int | float) and not isinstance(item, bool) and path else ""


_READERS: Mapping[Format, Callable[[IO[str], ListFeed], Iterator[_Fields | None]]] = {
    "lines": _lines,
    "list": _list,
    "csv": _csv,
    "json": _json,
}
