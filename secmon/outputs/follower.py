"""What follows the alerts of this node for one output: its position, its faults, its end."""

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from secmon.alerts.alert_reader import AlertReader, Line, Position
from secmon.alerts.silences import Silences
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.logfile.log_series import LogSeries
from secmon.common.to_the_end import to_the_end
from secmon.outputs.alert import Alert
from secmon.outputs.output import Receiver
from secmon.outputs.position_file import PositionFile

log = logging.getLogger("secmon.outputs")

IDLE_SECONDS = 0.05
"""Between two looks for new alerts."""
COMMIT_SECONDS = 1.0
"""Between two commits while no alert is wanted."""
RETRY_SECONDS = 1.0
"""After a fault of the disk or of the output itself."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before what failed is tried again: they double."""


class Batch(NamedTuple):
    """Alerts of one file that an output wants, and the position after all that was read."""

    alerts: list[Alert]
    position: Position


class Source(NamedTuple):
    """What all outputs of a node share. ``folder``: of their positions."""

    series: LogSeries
    folder: Path
    clock: Clock
    counters: Counters
    silences: Silences


class AlertFollower(ABC):
    """Hands the alerts from the committed position on to :meth:`handle`."""

    def __init__(self, receiver: Receiver, key: str, source: Source) -> None:
        """``key`` names the output in counters, and its position."""
        self._receiver = receiver
        self._key = key
        self._source = source
        self._file = PositionFile(source.folder, key)
        self._clock = source.clock
        self._reader: AlertReader | None = None
        self._failure = FailureLog(log, f"{receiver.name}: alerts wait", f"{receiver.name}: alerts are delivered again")
        self._stopping = asyncio.Event()
        self._committed = Position()
        self._commit_at = 0.0
        for name in ("delivered", "silenced", "refused", "failures", "malformed", "lost_files"):
            self.count(name, 0)

    async def open(self) -> None:
        """Find the position. Raises OSError."""
        self._reader = await asyncio.to_thread(self._open)

    async def run(self) -> None:
        """Deliver until :meth:`stop`. A fault of the output costs a pause: it continues at the last commit."""
        try:
            while not self._stopping.is_set():
                await self._attempt()
                await self.pause(RETRY_SECONDS)
        finally:
            self._close()
            await self._receiver.close()

    def stop(self) -> None:
        """End after the call in progress."""
        self._stopping.set()

    def unread(self) -> int:
        """Bytes of alerts that wait, sent or not, for the next commit. Raises OSError."""
        return self._reader.unread(self._committed) if self._reader is not None else 0

    @property
    def waits_for(self) -> str:
        """Why alerts wait; empty while they are delivered."""
        return self._failure.reason

    def _open(self) -> AlertReader:
        try:
            known = self._file.load()
        except ValueError:
            log.error("%s: its position cannot be read; it begins with the alerts from now on", self._receiver.name)
            self.count("lost_files")
            known = None
        reader = AlertReader(self._source.series, known)
        if known is None:
            self._file.commit(reader.position)
        self._committed = reader.position
        return reader

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    async def _attempt(self) -> None:
        """Deliver until the stop, or until something fails."""
        try:
            await self._follow()
        except OSError as error:
            self.failed(os_text(error))
        except Exception:  # of this output: the others must not suffer; logged and counted
            log.exception("%s has failed", self._receiver.name)
            self.failed("a fault, see the log")
        self._close()

    async def _follow(self) -> None:
        """Until the stop. Raises OSError."""
        if self._reader is None:
            await self.open()
        self.restarted()
        assert self._reader is not None, "opened"
        while not self._stopping.is_set():
            if not await self.handle(await self._read(self._reader)):
                await self.pause(IDLE_SECONDS)

    def restarted(self) -> None:  # noqa: B027 - most followers keep nothing between two batches
        """What was read and not committed comes again."""

    @abstractmethod
    async def handle(self, batch: Batch | None) -> bool:
        """Do with the next alerts, if any, what is due, and commit. False: nothing was done."""

    async def _read(self, reader: AlertReader) -> Batch | None:
        if reader.idle():
            return None
        before = reader.lost_files, reader.skipped
        lines = await to_the_end(reader.read)
        self.count("lost_files", reader.lost_files - before[0])
        self.count("malformed", reader.skipped - before[1])
        self._source.silences.refresh()
        alerts = [alert for alert in map(self._alert, lines) if alert is not None and self._wanted(alert)]
        return Batch(alerts, reader.position) if lines else None

    def _wanted(self, alert: Alert) -> bool:
        if not self._receiver.wants(alert):
            return False
        if not self._receiver.silences or not self._source.silences.hold(alert.fields, self._source.counters):
            return True
        self.count("silenced")
        return False

    def _alert(self, line: Line) -> Alert | None:
        try:
            return Alert(line.data, line.offset)
        except ValueError:
            self.count("malformed")
            return None

    async def commit(self, position: Position) -> None:
        """All alerts before ``position`` are done.

        Where that cannot be written, as on a full disk, nothing else is delivered until it can: going on at the last
        commit would send the same alerts again and again. A stop ends the wait, and leaves the last commit in force.
        """
        waited = False
        while not await self._written(position):
            waited = True
            await self.pause(RETRY_SECONDS)
            if self.stopping:
                return
        if waited:
            self.succeeded()
        self._committed = position
        self._commit_at = self._clock.monotonic() + COMMIT_SECONDS

    async def _written(self, position: Position) -> bool:
        try:
            await asyncio.to_thread(self._file.commit, position)
        except OSError as error:
            self.failed(os_text(error))
            return False
        return True

    @property
    def commit_due(self) -> bool:
        """Whether the position is committed although nothing was sent."""
        return self._clock.monotonic() >= self._commit_at

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or for the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def failed(self, reason: str) -> None:
        """Alerts wait because of ``reason``."""
        self.count("failures")
        self._failure.failed(reason)

    def succeeded(self) -> None:
        """Alerts do not wait any longer."""
        self._failure.succeeded()

    def count(self, name: str, amount: int = 1) -> None:
        """Count ``amount`` more of ``name`` for this output."""
        self._source.counters.add(f"{self._key}.{name}", amount)

    def show(self, name: str, value: int) -> None:
        """Set the gauge ``name`` of this output."""
        self._source.counters.set(f"{self._key}.{name}", value)
