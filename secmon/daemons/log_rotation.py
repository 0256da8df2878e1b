"""The task that rotates the logs of a node's daemons; the supervisor runs it."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.log_series import cluster_series, daemon_series
from secmon.common.logfile.rotation import LogRotation, RotationPolicy
from secmon.common.paths import Paths
from secmon.config.options import InternalOptions

_log = logging.getLogger("secmon.monitord")
_POLL_SECONDS = 5.0
_TIDY_SECONDS = 600.0  # between two tries of a compression or deletion that failed, at most
_PAUSE_SECONDS = 60.0  # after a failure: its warning would be logged into the same file again and again
_MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LogRotationSettings:
    """The internal options ``monitord.*`` (manager.md 17)."""

    compress: bool = True
    day_wait_seconds: int = 10
    keep_days: int = 31
    size_bytes: int = 512 * _MEGABYTE
    daily_rotations: int = 12

    @classmethod
    def of(cls, options: InternalOptions) -> "LogRotationSettings":
        """The settings that ``options`` hold."""
        return cls(
            compress=bool(options.get("monitord.compress")),
            day_wait_seconds=options.get("monitord.day_wait"),
            keep_days=options.get("monitord.keep_log_days"),
            size_bytes=options.get("monitord.size_rotate") * _MEGABYTE,
            daily_rotations=options.get("monitord.daily_rotations"),
        )

    def daemon_policy(self) -> RotationPolicy:
        """For ``ossec.log`` and ``ossec.json``: by day and by size; old parts are deleted."""
        return RotationPolicy(
            day_wait_seconds=self.day_wait_seconds,
            max_bytes=self.size_bytes,
            per_day=self.daily_rotations,
            compress=self.compress,
            keep_days=self.keep_days,
        )

    def cluster_policy(self) -> RotationPolicy:
        """For ``cluster.log``: by day; no part is ever deleted."""
        return RotationPolicy(day_wait_seconds=self.day_wait_seconds, compress=self.compress)


class LogRotationTask:
    """Rotates ``ossec.log``, ``ossec.json`` and ``cluster.log``."""

    def __init__(self, paths: Paths, settings: LogRotationSettings, clock: Clock, counters: Counters) -> None:
        daemon = [LogRotation(series, settings.daemon_policy()) for series in daemon_series(paths)]
        self._rotations = [*daemon, LogRotation(cluster_series(paths), settings.cluster_policy())]
        self._watched = [rotation.series.current for rotation in daemon]
        self._clock = clock
        self._counters = counters
        counters.add("log.rotation_errors", 0)  # shown from the start
        self._tidy_at = self._pause_until = float("-inf")
        self._present: set[Path] = set()

    async def run(self) -> None:
        """Rotate until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(_POLL_SECONDS)

    async def step(self) -> None:
        """:meth:`step_now` in a thread."""
        await asyncio.to_thread(self.step_now)

    def step_now(self) -> None:
        """Do what is due now; a failure is logged, counted, and tried again later."""
        if self._clock.monotonic() < self._pause_until:
            return
        self._warn_of_removed()
        now = self._clock.now().astimezone()
        closed = [self._rotate(rotation, now) for rotation in self._rotations]
        if any(closed) or self._clock.monotonic() >= self._tidy_at:
            for rotation in self._rotations:
                self._tidy(rotation, now)
            self._tidy_at = self._clock.monotonic() + _TIDY_SECONDS
        self._present = {path for path in self._watched if path.exists()}

    def _warn_of_removed(self) -> None:
        """Log that a file was removed; the entry creates it again. This runs before rotations of our own."""
        for path in sorted(self._present):
            if not path.exists():
                _log.warning("%s was removed with its content; a new file is written", path)

    def _rotate(self, rotation: LogRotation, now: datetime) -> bool:
        try:
            return rotation.rotate(now) is not None
        except OSError as error:
            self._failed(error)
            return False

    def _tidy(self, rotation: LogRotation, now: datetime) -> None:
        try:
            rotation.tidy(now.date())
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self._counters.add("log.rotation_errors")
        self._pause_until = self._clock.monotonic() + _PAUSE_SECONDS
        _log.warning("A log could not be rotated: %s", os_text(error))
