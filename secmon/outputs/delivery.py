"""The delivery of one output: read, filter, send until the receiver has taken it, commit.

Its position is its own, so that a receiver that is slow, away or hostile delays nothing but itself. A kill between the
receiver's answer and the commit repeats the alerts of one call.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from secmon.alerts.alert_reader import AlertReader, Line, Position
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.logfile.log_series import LogSeries
from secmon.outputs.alert import Alert
from secmon.outputs.output import Output, Undelivered
from secmon.outputs.position_file import PositionFile

log = logging.getLogger("secmon.outputs")

IDLE_SECONDS = 0.05
"""Between two looks for new alerts."""
COMMIT_SECONDS = 1.0
"""Between two commits while no alert is wanted."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a delivery that failed is tried again: they double."""
RETRY_SECONDS = 1.0
"""After a fault of the disk or of the output itself."""


class Delivery:
    """Delivers the alerts of this node to one output, from the committed position on."""

    def __init__(
        self, key: str, output: Output, series: LogSeries, folder: Path, clock: Clock, counters: Counters
    ) -> None:
        """``key`` names the output in counters, and its position in ``folder``."""
        self._key = key
        self._output = output
        self._series = series
        self._file = PositionFile(folder, key)
        self._clock = clock
        self._counters = counters
        self._reader: AlertReader | None = None
        self._failure = FailureLog(log, f"{output.name}: alerts wait", f"{output.name}: alerts are delivered again")
        self._stopping = asyncio.Event()
        self._commit_at = 0.0
        for name in ("delivered", "refused", "failures", "malformed", "lost_files"):
            self._counters.add(f"{key}.{name}", 0)

    async def open(self) -> None:
        """Find the position. Raises OSError."""
        self._reader = await asyncio.to_thread(self._open)

    async def run(self) -> None:
        """Deliver until :meth:`stop`. A fault of the output costs a pause: it continues at the last commit."""
        try:
            while not self._stopping.is_set():
                await self._attempt()
                await self._pause(RETRY_SECONDS)
        finally:
            self._close()
            await self._output.close()

    def stop(self) -> None:
        """End after the call in progress."""
        self._stopping.set()

    def unread(self) -> int:
        """Bytes of alerts that wait. Raises OSError."""
        return self._reader.unread() if self._reader is not None else 0

    @property
    def waits_for(self) -> str:
        """Why alerts wait; empty while they are delivered."""
        return self._failure.reason

    def _open(self) -> AlertReader:
        try:
            known = self._file.load()
        except ValueError:
            log.error("%s: its position cannot be read; it begins with the alerts from now on", self._output.name)
            self._count("lost_files")
            known = None
        reader = AlertReader(self._series, known)
        if known is None:
            self._file.commit(reader.position)
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
            self._failed(os_text(error))
        except Exception:  # of this output: the others must not suffer; logged and counted
            log.exception("%s has failed", self._output.name)
            self._failed("a fault, see the log")
        self._close()

    async def _follow(self) -> None:
        """Until the stop. Raises OSError."""
        if self._reader is None:
            await self.open()
        assert self._reader is not None, "opened"
        while not self._stopping.is_set():
            if self._reader.idle() or not await self._step(self._reader):
                await self._pause(IDLE_SECONDS)

    async def _step(self, reader: AlertReader) -> bool:
        """Deliver the next alerts; False when there are none. Raises OSError."""
        before = reader.lost_files, reader.skipped
        lines = await asyncio.to_thread(reader.read)
        self._count("lost_files", reader.lost_files - before[0])
        self._count("malformed", reader.skipped - before[1])
        if not lines:
            return False
        wanted = [alert for alert in map(self._alert, lines) if alert is not None and self._output.wants(alert)]
        for start in range(0, len(wanted), self._output.most):
            if not await self._deliver(reader.position, wanted[start : start + self._output.most]):
                return True
        if self._clock.monotonic() >= self._commit_at:
            await self._commit(reader.position)
        return True

    def _alert(self, line: Line) -> Alert | None:
        try:
            return Alert(line.data, line.offset)
        except ValueError:
            self._count("malformed")
            return None

    async def _deliver(self, position: Position, alerts: Sequence[Alert]) -> bool:
        """Send until all are taken or refused, and commit that; False at a stop before. Raises OSError."""
        pause = FIRST_PAUSE
        while alerts:
            try:
                refused = await self._output.deliver(alerts)
                done = len(alerts)
                self._failure.succeeded()
            except Undelivered as error:
                refused, done = 0, error.done
                self._failed(str(error))
            self._count("delivered", done - refused)
            self._count("refused", refused)
            if done:
                await self._commit(position.at(alerts[done - 1].end))
                alerts, pause = alerts[done:], FIRST_PAUSE
            if alerts:
                await self._pause(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
                if self._stopping.is_set():
                    return False
        return True

    async def _commit(self, position: Position) -> None:
        await asyncio.to_thread(self._file.commit, position)
        self._commit_at = self._clock.monotonic() + COMMIT_SECONDS

    async def _pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or for the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _failed(self, reason: str) -> None:
        self._count("failures")
        self._failure.failed(reason)

    def _count(self, name: str, amount: int = 1) -> None:
        self._counters.add(f"{self._key}.{name}", amount)
