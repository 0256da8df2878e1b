"""The text of a list, and of the file beside it that says when entries expire (ruleset.md 7.1, 7.4)."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from secmon.common.clock import iso_z

COMPILED_SUFFIX = ".cdb"
"""Of the compiled form of a list, which other tools write beside it (ruleset.md 1.1)."""
EXPIRY_SUFFIX = ".expiry"
"""Of the name of a list: the file with the dates until which entries match."""

MAX_LINE = 65534


class Entry(NamedTuple):
    """One entry of a list. ``until``: seconds since 1970 from which on it does not match; None: it does not expire."""

    key: bytes
    value: bytes
    until: int | None = None


def read_line(line: bytes) -> tuple[bytes, bytes] | None:
    """Key and value of one line; None for an invalid line (ruleset.md 7.1)."""
    text = line.split(b"\r", 1)[0]
    if len(text) > MAX_LINE:
        return None
    quote, colon = text.find(b'"'), text.find(b":")
    if quote >= 0 and (colon < 0 or colon > quote):
        end = text.find(b'"', quote + 1)
        if end < 0:
            return None
        key, colon = text[quote + 1 : end], text.find(b":", end + 1)
    else:
        key = text[:colon] if colon >= 0 else b""
    if colon < 0:
        return None
    value = text[colon + 1 :]
    opening = value.find(b'"')
    if opening >= 0:
        closing = value.find(b'"', opening + 1)
        if closing < 0:
            return None
        value = value[opening + 1 : closing]
    return key, value


def write_line(key: bytes, value: bytes) -> bytes:
    """The line that is read as ``key`` and ``value``, by the API as by the engine. Raises ValueError: there is none."""
    quoted = b":" in key or b":" in value
    line = b'"%b":"%b"\n' % (key, value) if quoted else b"%b:%b\n" % (key, value)
    if not key or len(line) > MAX_LINE or any(mark in text for text in (key, value) for mark in (b'"', b"\n", b"\r")):
        raise ValueError("the entry cannot be written as a line")
    return line


def read_entries(source: bytes, expiry: bytes = b"") -> dict[bytes, Entry]:
    """The entries of a list by their keys. The first value of a repeated key counts."""
    expiries, entries = read_expiries(expiry).until, dict[bytes, Entry]()
    for line in source.split(b"\n"):
        found = read_line(line)
        if found is not None and found[0] not in entries:
            entries[found[0]] = Entry(*found, expiries.get(found[0]))
    return entries


class Expiries(NamedTuple):
    """Seconds since 1970 by key, and the lines that are not a key with a date."""

    until: Mapping[bytes, int]
    invalid: int = 0


def read_expiries(source: bytes) -> Expiries:
    """The dates of the file beside a list: lines as those of the list, their values are moments in ISO 8601."""
    until: dict[bytes, int] = {}
    invalid = 0
    for line in source.split(b"\n"):
        found = read_line(line)
        moment = None if found is None else moment_of(found[1].decode("ascii", "replace"))
        if found is not None and moment is not None:
            until.setdefault(found[0], moment)
        else:
            invalid += bool(line.strip())
    return Expiries(until, invalid)


def moment_of(text: str) -> int | None:
    """Seconds since 1970 of a moment in ISO 8601 (UTC if it names no zone) or in seconds; None: it is neither."""
    try:
        if text.isascii() and text.isdigit():
            moment = datetime.fromtimestamp(int(text), UTC)
        else:
            moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def write_entries(entries: Iterable[Entry]) -> tuple[bytes, bytes]:
    """The list and its expiry file (empty: none is needed), ordered, so that equal entries are equal files."""
    ordered = sorted(entries)
    lines = (write_line(each.key, each.value) for each in ordered)
    dated = ((each.key, iso_z(datetime.fromtimestamp(each.until, UTC))) for each in ordered if each.until is not None)
    return b"".join(lines), b"".join(write_line(key, moment.encode()) for key, moment in dated)
