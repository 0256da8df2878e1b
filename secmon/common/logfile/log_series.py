"""Log files and the names of their closed parts (manager.md 12.4, conventions.md 12.2, cluster.md 7.3)."""

import calendar
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from secmon.common.logfile.append_file import inherit_owner
from secmon.common.paths import Paths

FILE_MODE, FOLDER_MODE = 0o640, 0o750
"""Modes of closed parts and of their folders."""
_MONTHS = tuple(calendar.month_abbr)  # fixed at import, before anything can set a locale: Jan..Dec


@dataclass(frozen=True)
class LogSeries:
    """A log file and the names of its closed parts: ``<archive>/<YYYY>/<Mon>/<stem><DD>[<separator><N>]<suffix>``."""

    current: Path
    archive: Path
    stem: str
    suffix: str = ""
    separator: str = "_"
    digits: int = 1

    def part(self, day: date, number: int = 0) -> Path:
        """Path of a closed part before compression; ``number`` 0 has no number in its name."""
        tail = f"{self.separator}{number:0{self.digits}d}" if number else ""
        name = f"{self.stem}{day.day:02d}{tail}{self.suffix}"
        return self.archive / f"{day.year:04d}" / _MONTHS[day.month] / name

    def parts(self) -> list[tuple[date, int, Path]]:
        """Closed parts, oldest first: day, number, path as it is (``.gz`` or not).

        The part without number is the last one of its day. A part that exists in both
        forms (interrupted compression) comes once, compressed.
        """
        pattern = re.compile(
            rf"{re.escape(self.stem)}(\d\d)(?:{re.escape(self.separator)}(\d{{1,9}}))?{re.escape(self.suffix)}(\.gz)?"
        )
        found: dict[tuple[date, int], Path] = {}
        for year, month, folder in self._folders():
            for name in sorted(os.listdir(folder)):  # the compressed form of a name follows the plain one
                match = pattern.fullmatch(name)
                if match and 1 <= int(match[1]) <= calendar.monthrange(year, month)[1]:
                    found[date(year, month, int(match[1])), int(match[2] or 0)] = folder / name
        last = 10**9
        return [(*key, found[key]) for key in sorted(found, key=lambda key: (key[0], key[1] or last))]

    def last_number(self, day: date) -> int:
        """The highest number of a file of ``day``, whatever its ending; 0 without one."""
        folder = self.part(day).parent
        if not folder.is_dir():
            return 0
        prefix = f"{self.stem}{day.day:02d}{self.separator}"
        found = [name[len(prefix) :].split(".")[0] for name in os.listdir(folder) if name.startswith(prefix)]
        return max((int(one) for one in found if one.isascii() and one.isdecimal()), default=0)

    def make_folders(self, part: Path) -> None:
        """The folders of ``part``: archive, year and month, with their mode and owner whatever umask and user."""
        folder = part.parent
        for path in (self.archive, folder.parent, folder):
            try:
                path.mkdir(FOLDER_MODE, parents=True)
            except FileExistsError:
                continue
            inherit_owner(path, path.parent)
            path.chmod(FOLDER_MODE)

    def _folders(self) -> Iterator[tuple[int, int, Path]]:
        for year in self.archive.glob("[0-9][0-9][0-9][0-9]"):
            for month in range(1, 13):
                folder = year / _MONTHS[month]
                if int(year.name) > 0 and folder.is_dir():
                    yield int(year.name), month, folder


def daemon_series(paths: Paths) -> tuple[LogSeries, LogSeries]:
    """``logs/ossec.log`` and ``logs/ossec.json``."""
    folder = paths.logs / "secmon"
    return (
        LogSeries(paths.logs / "ossec.log", folder, "ossec-", ".log", "-", 3),
        LogSeries(paths.logs / "ossec.json", folder, "ossec-", ".json", "-", 3),
    )


def alert_series(paths: Paths) -> LogSeries:
    """``logs/alerts/alerts.json``: the live name of the newest file of the day."""
    folder = paths.logs / "alerts"
    return LogSeries(folder / "alerts.json", folder, "ossec-alerts-", ".json", "-", 3)


def cluster_series(paths: Paths) -> LogSeries:
    """``logs/cluster.log``."""
    return LogSeries(paths.logs / "cluster.log", paths.logs / "cluster", "cluster.log-")


def api_series(paths: Paths) -> tuple[LogSeries, LogSeries]:
    """``logs/api.log`` and ``logs/api.json``."""
    folder = paths.logs / "api"
    return (
        LogSeries(paths.logs / "api.log", folder, "api.log-"),
        LogSeries(paths.logs / "api.json", folder, "api.json-"),
    )
