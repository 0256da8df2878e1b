"""The daemon log as ``GET /manager/logs`` shows it (manager.md 12.2, 12.3, 19 row 6).

Reads the current file and then closed ones, from the newest entry back, within :class:`Limits`. Differences from the
public counterpart, by intent: time stamps are true UTC, multi-line messages are kept, the window is not 2000 lines.
Everything here blocks: call it in a thread.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypedDict

import msgspec

from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.logfile.backward import MAX_LINE, Budget, gzip_lines, plain_lines
from secmon.common.logfile.log_series import LogSeries, daemon_series
from secmon.common.logfile.text import INDENT
from secmon.common.paths import Paths

LEVELS = ("info", "error", "critical", "warning", "debug")
"""The levels, in the order of the summary."""

_FOLD_SLACK = 60.0  # seconds that entries of processes may be out of order without being taken for another hour
_STAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:[0-5]\d", re.ASCII)
_HEAD = re.compile(
    rb"(\d{4}/\d\d/\d\d \d\d:\d\d:[0-5]\d) ([^\s\[]{1,256}?)(?:\[\d{1,10}\] .{0,512}?)?"
    rb": (DEBUG|INFO|WARNING|ERROR|CRITICAL):(.*)",
    re.DOTALL,
)


class LogEntry(TypedDict):
    """An item of ``GET /manager/logs``."""

    timestamp: str
    tag: str
    level: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where reading stops, whichever comes first. A cut falls on the oldest entries."""

    entries: int = 100_000
    """Entries returned (or counted)."""

    text_bytes: int = 64 << 20
    """Bytes of text looked at, decompressed."""

    lines: int = 1_000_000
    """Physical lines looked at."""

    inflated_bytes: int = 640 << 20
    """Bytes decompressed on the way to the ends of compressed files."""


DEFAULT_LIMITS = Limits()


def read_logs(
    paths: Paths, *, tag: str | None = None, level: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[LogEntry]:
    """Entries, newest first; those of the same second in the order of the file.

    ``tag`` (any case) and ``level`` (lower case; ``debug2`` matches nothing) select. ``description`` keeps the blank
    before the text; the lines of a multi-line message are joined by line feeds. No file, no entries: one that was
    removed comes back with the next message. Raises 1020 when there is no folder of logs, 1005 when the current file
    cannot be read.
    """
    wanted = tag.lower() if tag is not None else None
    entries: list[LogEntry] = []
    for entry in _newest_first(paths, limits):
        if (level is not None and entry["level"] != level) or (wanted is not None and entry["tag"].lower() != wanted):
            continue
        entries.append(entry)
        if len(entries) >= limits.entries:
            break
    entries.reverse()
    entries.sort(key=lambda entry: entry["timestamp"], reverse=True)  # stable: equal ones stay in file order
    return entries


def summary(paths: Paths, *, limits: Limits = DEFAULT_LIMITS) -> list[dict[str, dict[str, int]]]:
    """Number of entries by tag and level, sorted by tag: ``[{"secmon-apid": {"all": 3, "info": 2, ...}}]``.

    Covers the window of :func:`read_logs` and raises what it does.
    """
    counts: dict[str, dict[str, int]] = {}
    for number, entry in enumerate(_newest_first(paths, limits), 1):
        count = counts.setdefault(entry["tag"], {"all": 0, **dict.fromkeys(LEVELS, 0)})
        count["all"] += 1
        count[entry["level"]] += 1
        if number >= limits.entries:
            break
    return [{tag: counts[tag]} for tag in sorted(counts)]


def _newest_first(paths: Paths, limits: Limits) -> Iterator[LogEntry]:
    series, is_json = _choose(paths)
    descriptor, parts = _snapshot(series)
    budget = Budget(limits.text_bytes, limits.lines, limits.inflated_bytes)
    times = _LocalTimes()
    parse = _json_entries if is_json else _plain_entries
    try:
        if descriptor is not None:
            times.not_after(os.fstat(descriptor).st_mtime)
            yield from parse(plain_lines(descriptor, budget), times)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    for part in parts:
        if budget.spent:
            return
        yield from parse(_part_lines(part, budget, times), times)


def _choose(paths: Paths) -> tuple[LogSeries, bool]:
    """The log to read: the plain one if it exists, else the JSON one; only parts, or none, may exist."""
    plain, as_json = daemon_series(paths)
    for series in (plain, as_json):
        if series.current.is_file():
            return series, series is as_json
    for series in (plain, as_json):
        if _parts(series):
            return series, series is as_json
    if not plain.current.parent.is_dir():
        raise SecmonError(1020)
    return plain, False


def _snapshot(series: LogSeries) -> tuple[int | None, list[Path]]:
    """Descriptor of the current file and the closed parts, newest first, as of one moment between rotations."""
    while True:
        before = _parts(series)
        descriptor = _open_current(series.current)
        after = _parts(series)
        if [part[:2] for part in before] == [part[:2] for part in after]:
            return descriptor, [path for _, _, path in reversed(after)]
        if descriptor is not None:  # a rotation in between: the file may be the current one and a part at once
            os.close(descriptor)


def _parts(series: LogSeries) -> list[tuple[date, int, Path]]:
    """Closed parts; none when their folders may not be read: the current file must not suffer."""
    try:
        return series.parts()
    except OSError:
        return []


def _open_current(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecmonError(1005, f"{path.name}: {error.strerror}") from error


def _part_lines(path: Path, budget: Budget, times: "_LocalTimes") -> Iterator[bytes]:
    """Lines of a closed part, last first; none when it is gone or unreadable: newer ones must not suffer."""
    for candidate in (path, path.with_name(path.name + ".gz")):  # it may have been compressed since it was listed
        with suppress(OSError), open(candidate, "rb") as file:
            times.not_after(os.fstat(file.fileno()).st_mtime)
            yield from gzip_lines(file, budget) if candidate.suffix == ".gz" else plain_lines(file.fileno(), budget)
            return


def _plain_entries(lines: Iterator[bytes], times: "_LocalTimes") -> Iterator[LogEntry]:
    following: deque[bytes] = deque()  # continuation lines of the entry to come, the last one first
    size = 0
    for line in lines:
        head = _HEAD.match(line)
        when = times.utc(head[1].decode()) if head else None
        if head is None or when is None:
            following.append(line)
            size += len(line) + 1
            while size > MAX_LINE:
                size -= len(following.popleft()) + 1
            continue
        description = head[4].decode("utf-8", "replace")
        if following:
            description = "\n".join([description, *map(_continuation, reversed(following))])
            following.clear()
            size = 0
        yield _entry(when, head[2].decode("utf-8", "replace"), head[3].decode(), description)


def _continuation(line: bytes) -> str:
    return line.decode("utf-8", "replace").removeprefix(INDENT)


class _JsonLine(msgspec.Struct):
    timestamp: str
    tag: str
    level: str
    description: str = ""


def _json_entries(lines: Iterator[bytes], times: "_LocalTimes") -> Iterator[LogEntry]:
    decoder = msgspec.json.Decoder(_JsonLine)
    for line in lines:
        try:
            found = decoder.decode(line)
        except (ValueError, RecursionError):  # not an entry; msgspec's errors and bad UTF-8 are ValueErrors
            continue
        when = times.utc(found.timestamp) if _STAMP.fullmatch(found.timestamp) else None
        if when and found.level.lower() in LEVELS:
            yield _entry(when, found.tag, found.level, found.description)


def _entry(when: str, tag: str, level: str, description: str) -> LogEntry:
    return {
        "timestamp": when,
        "tag": "secmon-rootcheck" if "rootcheck" in tag else tag,
        "level": level.lower(),
        "description": description,
    }


class _LocalTimes:
    """Turns local time stamps, met from the newest to the oldest, into UTC.

    In the hour that a change to winter time repeats, a stamp means its later instant, unless that lies after the entry
    that follows in the file (or after the file's last change); then it means the earlier one.
    """

    def __init__(self) -> None:
        self._bound = float("inf")
        self._stamp, self._text = "", ""
        self._minute = ""
        self._instants: tuple[float, ...] = ()

    def not_after(self, instant: float) -> None:
        """What comes is not later than ``instant`` (seconds since 1970)."""
        self._bound = min(self._bound, instant)

    def utc(self, stamp: str) -> str | None:
        """``YYYY/MM/DD HH:MM:SS`` local as ``YYYY-MM-DDTHH:MM:SSZ``; None when there is no such date."""
        if stamp == self._stamp:
            return self._text
        if stamp[:16] != self._minute:
            self._minute, self._instants = stamp[:16], _instants(stamp[:16])
        if not self._instants:
            return None
        seconds = int(stamp[17:])
        instant = self._instants[0] + seconds
        if instant > self._bound + _FOLD_SLACK:
            instant = self._instants[-1] + seconds
        self._bound = instant
        self._stamp, self._text = stamp, iso_z(datetime.fromtimestamp(instant, UTC))
        return self._text


def _instants(minute: str) -> tuple[float, ...]:
    """Seconds since 1970 that the local ``YYYY/MM/DD HH:MM`` may mean, latest first; empty: no such date."""
    try:
        local = datetime(int(minute[:4]), int(minute[5:7]), int(minute[8:10]), int(minute[11:13]), int(minute[14:16]))
        earlier, later = local.timestamp(), local.replace(fold=1).timestamp()
        datetime.fromtimestamp(max(earlier, later) + 60, UTC)  # the first and the last years may leave the calendar
    except (ValueError, OverflowError, OSError):
        return ()
    return (later, earlier) if later > earlier else (earlier,)
