"""Hourly and daily counts, their averages, and alerts when an average is far exceeded (ruleset.md 10)."""

import calendar
import os
from collections import Counter, deque
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import msgspec

from secmon.common.file_io import write_file
from secmon.common.logfile.append_file import inherit_owner
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.engine.rules.rule import Rule

RULE_ID = 11
"""Id of the internal rule that alerts."""
_MONTHS = tuple(calendar.month_abbr)  # fixed at import: a later locale changes nothing
_LEARNED = 24
"""Name of the file with the number of days that an average has learned."""
_MIN_LEARNED = 3
"""Days before an average is used."""
_MAX_ALERTS = 3
"""Alerts a day."""
_MAX_WEIGHT = 7
"""Days or weeks that the old average counts for."""


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings:
    """``level`` of the internal rule, 0: no alerts. The others: by how many events the average must be exceeded."""

    level: int = 4
    percent: int = 150
    least: int = 1250
    most: int = 999_000

    @classmethod
    def of(cls, config: MainConfig, options: InternalOptions) -> "StatisticsSettings":
        return cls(
            level=config.integer("global", "stats", default=4),
            percent=options.get("analysisd.stats_percent_diff"),
            least=options.get("analysisd.stats_mindiff"),
            most=options.get("analysisd.stats_maxdiff"),
        )

    def excessive(self, count: int, average: int) -> bool:
        margin = min(max(average * self.percent // 100 + 1, self.least), self.most)
        return count > average + margin

    def rule(self) -> Rule:
        """The internal rule."""
        return Rule(
            RULE_ID, self.level, "", 0, description=b"More events than is usual at this time.", groups=b"stats,"
        )


class CurrentCounts(msgspec.Struct):
    """Counts of a day and its current hour; kept on disk across restarts."""

    day: date
    hour: int
    hours: list[int] = msgspec.field(default_factory=lambda: [0] * 24)
    alerted: list[int] = msgspec.field(default_factory=list)
    """Hours with an alert of the internal rule; -1-hour: by the weekday."""
    events: int = 0
    syscheck: int = 0
    firewall: int = 0
    rules: dict[str, int] = msgspec.field(default_factory=dict)
    """Selections of each rule, by ``id-level``, in this hour."""


class Averages:
    """Expected events of 24 hours in a folder, and how often they were learned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = [_read_number(folder / str(hour)) for hour in range(24)]
        self.learned = _read_number(folder / str(_LEARNED))

    def learn(self, hours: list[int], *, alerts: int) -> dict[Path, bytes]:
        """Learn a day; the files that change, with their content."""
        changed = {}
        weight = min(self.learned, _MAX_WEIGHT)
        for hour, count in enumerate(hours):
            if count:
                self.values[hour] = learned_average(count, self.values[hour], weight, alerts=alerts)
                changed[self.folder / str(hour)] = str(self.values[hour]).encode()
        self.learned += 1
        changed[self.folder / str(_LEARNED)] = str(self.learned).encode()
        return changed


def learned_average(count: int, average: int, weight: int, *, alerts: int) -> int:
    """The average after one more day; ``weight``: days that the old average counts for."""
    if not average:
        return count + 20
    if alerts >= _MAX_ALERTS:
        return (3 * count + weight * average) // (weight + 3) + 25
    return (count + weight * average) // (weight + 1) + 5


class EventStatistics:
    """Counts in memory; writes when an hour or a day is over, at :meth:`begin_hour`. For one thread."""

    def __init__(self, folder: Path, settings: StatisticsSettings, now: datetime) -> None:
        """``now`` in local time. Counts of an earlier process in the same hour or day are continued."""
        self._folder = folder
        self._settings = settings
        self._writes: deque[tuple[Path, bytes, bool]] = deque()
        self._hourly = Averages(folder / "hourly-average")
        self._weekly = [Averages(folder / "weekly-average" / str(day)) for day in range(7)]
        self._rules: Counter[tuple[int, int]] = Counter()
        self._current = self._load() or CurrentCounts(now.date(), now.hour)
        self._turned = False
        self.written = 0
        """Lines of totals written."""

    def received(self, count: int) -> None:
        self._current.events += count

    def syscheck(self, count: int = 1) -> None:
        self._current.syscheck += count

    def firewall(self) -> None:
        self._current.firewall += 1

    def selected(self, rule: Rule) -> None:
        """A rule was selected for an event."""
        self._rules[rule.id, rule.level] += 1

    def processed(self, moment: datetime) -> str | None:
        """Count an event of the current hour; the text of an alert when there are far more than usual."""
        current, hour = self._current, self._current.hour
        current.hours[hour] += 1
        if not self._settings.level or len(current.alerted) >= _MAX_ALERTS:
            return None
        count, day = current.hours[hour], current.day.isoweekday() % 7
        for averages, mark in ((self._hourly, hour), (self._weekly[day], -1 - hour)):
            average = averages.values[hour]
            if averages.learned < _MIN_LEARNED or mark in current.alerted:
                continue
            if self._settings.excessive(count, average):
                current.alerted.append(mark)
                usual = "usually" if mark >= 0 else f"on {calendar.day_name[current.day.weekday()]}s usually"
                end = (hour + 1) % 24
                return f"Between {hour}:00 and {end}:00 there are {usual} {average} events; now there are {count}."
        return None

    def begin_hour(self, now: datetime) -> bool:
        """Begin the hour of ``now`` if it is another one; whether it was. Raises OSError; then call it again."""
        current = self._current
        if (now.date(), now.hour) != (current.day, current.hour):
            self._turned = True
            self._end_hour()
            if now.date() != current.day:
                self._end_day()
                self._current = CurrentCounts(now.date(), now.hour)
            else:
                self._current = CurrentCounts(current.day, now.hour, current.hours, current.alerted)
        self._write_out()
        turned, self._turned = self._turned, False
        return turned

    def save(self) -> None:
        """Keep the counts for the next start. Raises OSError."""
        self._current.rules = {f"{rule}-{level}": times for (rule, level), times in self._rules.items()}
        write_file(self._state, msgspec.json.encode(self._current))

    @property
    def _state(self) -> Path:
        return self._folder / "current.json"

    def _load(self) -> CurrentCounts | None:
        try:
            found = msgspec.json.decode(self._state.read_bytes(), type=CurrentCounts)
            for name, times in found.rules.items():
                rule, _, level = name.partition("-")
                self._rules[int(rule), int(level)] = times
        except (OSError, ValueError):
            return None
        return found if len(found.hours) == 24 and 0 <= found.hour < 24 else None

    @property
    def _totals(self) -> Path:
        day = self._current.day
        return self._folder / "totals" / f"{day.year:04d}" / _MONTHS[day.month] / f"ossec-totals-{day.day:02d}.log"

    def _end_hour(self) -> None:
        one, hour = self._current, self._current.hour
        lines = [f"{hour}-{rule}-{level}-{times}" for (rule, level), times in sorted(self._rules.items())]
        selections = sum(self._rules.values())
        self._rules.clear()
        if one.events or selections:
            lines += [f"{hour}--{selections}--{one.events}--{one.syscheck}--{one.firewall}", ""]
            self._append(lines)

    def _end_day(self) -> None:
        one = self._current
        if any(one.hours):
            lines = [f"Hour totals - {hour}:{count}" for hour, count in enumerate(one.hours)]
            self._append([*lines, f"Total events for day:{sum(one.hours)}"])
            alerts = len(one.alerted)
            weekly = self._weekly[one.day.isoweekday() % 7]
            for averages in (self._hourly, weekly):
                for path, data in averages.learn(one.hours, alerts=alerts).items():
                    self._writes.append((path, data, False))

    def _append(self, lines: list[str]) -> None:
        self._writes.append((self._totals, ("\n".join(lines) + "\n").encode(), True))

    def _write_out(self) -> None:
        while self._writes:
            path, data, append = self._writes[0]
            _make_folder(path.parent)
            if append:
                _append_whole(path, data)
                self.written += data.count(b"\n")
            else:
                write_file(path, data)
            self._writes.popleft()


def _append_whole(path: Path, data: bytes) -> None:
    """Append all of ``data`` or nothing, on a line of its own. Raises OSError.

    A line that a crash cut is removed: the file is read as a whole, and no program follows its end.
    """
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        before = os.pread(file, os.fstat(file).st_size, 0).rfind(b"\n") + 1
        os.ftruncate(file, before)
        try:
            if os.write(file, data) < len(data):
                raise OSError("the disk is full")
        except OSError:
            os.ftruncate(file, before)
            raise
    finally:
        os.close(file)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o750, exist_ok=True)
        inherit_owner(folder, folder.parent)


def _read_number(path: Path) -> int:
    """A whole number in a file; 0 without one."""
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isascii() and text.isdecimal() else 0
