"""From the files of alerts into the store: every alert once, whatever ends the process at whatever moment.

The position in the files is committed together with the alerts before it. After a restart, or a fault of the disk, the
files are read again from the last commit on. While the disk is full nothing is lost as long as the files are there.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

from secmon.alerts import generations
from secmon.alerts.alert_reader import AlertReader, Position
from secmon.alerts.writer import AlertWriter, StoreLimits
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.logfile.log_series import LogSeries

log = logging.getLogger("secmon.alerts")

COMMIT_SECONDS = 1.0
"""Shortest time between two commits: each flushes to the disk."""
COMMIT_ALERTS = 20_000
"""Alerts after which one is made earlier."""
DROP_SECONDS = 60.0
"""Time between two looks whether partitions are to be deleted."""


class AlertIndexer:
    """Reads the files of a node and writes its store. For one thread; everything blocks."""

    def __init__(
        self, folder: Path, series: LogSeries, *, clock: Clock, counters: Counters, limits: StoreLimits | None = None
    ) -> None:
        """``folder``: of the store, ``series``: of the alerts. Nothing is opened yet."""
        self._folder, self._series, self._clock, self._counters = folder, series, clock, counters
        self._limits = limits or StoreLimits()
        self._writer: AlertWriter | None = None
        self._reader: AlertReader | None = None
        self._committed_at = self._dropped_at = float("-inf")

    def step(self) -> bool:
        """Index what is there, up to a commit; whether something is left to do at once.

        Raises OSError, StoreFault; the next step begins at the last commit.
        """
        try:
            with store_lock(self._folder):
                writer, reader = self._opened()
                return self._work(writer, reader)
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> Position | None:
        """Of the last commit."""
        writer = self._writer
        return writer.position if writer else None

    def unread(self) -> int:
        """Bytes of alerts that are not indexed, compressed ones as they are. Raises OSError."""
        reader = self._reader
        return reader.unread() if reader else 0

    def close(self) -> None:
        """Give up what is not committed."""
        if self._writer is not None:
            self._writer.close()
        if self._reader is not None:
            self._reader.close()
        self._writer = self._reader = None

    def _opened(self) -> tuple[AlertWriter, AlertReader]:
        """The writer of the generation in use, and the reader at its position."""
        generation = generations.current(self._folder)
        if self._writer is not None and self._reader is not None and self._writer.generation == generation:
            return self._writer, self._reader
        if self._writer is not None:
            self._writer.abandon()  # the merges of a large partition take minutes, and it is deleted now
            self._writer = None
        self.close()
        self._writer, self._reader = open_generation(generation, self._series, self._limits, self._clock)
        self._counters.add("alerts.damaged_partitions", self._writer.damaged)
        generations.remove_earlier(generation)
        return self._writer, self._reader

    def _work(self, writer: AlertWriter, reader: AlertReader) -> bool:
        self._drop(writer)
        now = self._clock.monotonic()
        due = now - self._committed_at >= COMMIT_SECONDS
        if not writer.waiting and reader.idle():
            return False
        before = reader.lost_files, reader.skipped, writer.malformed
        more = True
        while more and writer.waiting < COMMIT_ALERTS:
            more = index_some(writer, reader)
        after = reader.lost_files, reader.skipped, writer.malformed
        for name, old, new in zip(("lost_files", "skipped_lines", "malformed_lines"), before, after, strict=True):
            if new > old:
                self._counters.add(f"alerts.{name}", new - old)
        if writer.waiting and (due or more):
            self._counters.add("alerts.indexed", writer.commit(reader.position))
            self._counters.add("alerts.commits")
            self._committed_at = now
        return more

    def _drop(self, writer: AlertWriter) -> None:
        if self._clock.monotonic() - self._dropped_at >= DROP_SECONDS:
            self._dropped_at = self._clock.monotonic()
            self._counters.add("alerts.dropped_partitions", writer.drop(_today(self._clock)))


def open_generation(
    generation: Path, series: LogSeries, limits: StoreLimits, clock: Clock
) -> tuple[AlertWriter, AlertReader]:
    """A writer, and a reader where it left off; a new generation begins with the oldest file that is to be kept.

    Raises OSError, StoreFault.
    """
    writer = AlertWriter(generation, limits)
    begin = _today(clock) - timedelta(days=limits.keep_days) if limits.keep_days else date.min
    return writer, AlertReader(series, writer.position or Position(day=begin))


def index_some(writer: AlertWriter, reader: AlertReader) -> bool:
    """Add the next lines; whether there were any. It commits where another partition begins.

    Raises OSError, StoreFault.
    """
    before = reader.position
    lines = reader.read()
    day = reader.position.day
    if day != before.day and writer.waiting:
        writer.commit(before)
    if not writer.waiting:
        writer.turn_over(day)
    writer.add(lines, day)
    return bool(lines)


@contextmanager
def store_lock(folder: Path) -> Iterator[None]:
    """Hold the store against other writers. Raises OSError."""
    folder.mkdir(0o750, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _today(clock: Clock) -> date:
    return clock.now().astimezone().date()
