"""The task that rotates a node's own logs: one per node, run by the supervisor."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import ParamSpec

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.rotation import cluster_series, daemon_series, finish, purge, rotate_day, rotate_size
from secmon.common.paths import Paths
from secmon.config.options import InternalOptions

P = ParamSpec("P")
_log = logging.getLogger("secmon.monitord")
_POLL_SECONDS = 5.0
_TIDY_SECONDS = 600.0  # how soon a compression or deletion that failed is tried again, at most
_PAUSE_SECONDS = 60.0  # after a failure: it would be logged into the very file again and again
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


class LogRotationTask:
    """Rotates ``ossec.log``, ``ossec.json`` and ``cluster.log`` at day change, the first two by size as well.

    Holds no state that a restart would miss: what is due follows from the files. Old parts of the daemon log are
    deleted, those of the cluster log never.
    """

    def __init__(self, paths: Paths, settings: LogRotationSettings, clock: Clock, counters: Counters) -> None:
        self._daemon = daemon_series(paths)
        self._all = (*self._daemon, cluster_series(paths))
        self._settings = settings
        self._clock = clock
        self._counters = counters
        self._tidy_at = self._pause_until = float("-inf")
        self._there: set[Path] = set()

    async def run(self) -> None:
        """Keep the logs until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(_POLL_SECONDS)

    async def step(self) -> None:
        """Do what is due now, in a thread."""
        await asyncio.to_thread(self.step_now)

    def step_now(self) -> None:
        """Do what is due now; a failure is logged and counted, and tried again later."""
        if self._clock.monotonic() < self._pause_until:
            return
        self._replace_removed()
        now = self._clock.now().astimezone()
        # The day begins day_wait late, so that its predecessor's last entries are in their file.
        settled = (now - timedelta(seconds=self._settings.day_wait_seconds)).date()
        if self._rotate(settled, now.date()) or self._clock.monotonic() >= self._tidy_at:
            self._tidy(now.date())
            self._tidy_at = self._clock.monotonic() + _TIDY_SECONDS
        self._there = {series.current for series in self._daemon if series.current.exists()}

    def _replace_removed(self) -> None:
        """Say so when somebody took a file away; the entry makes it anew. Rotations of our own come after this."""
        for path in sorted(self._there):
            if not path.exists():
                _log.warning("%s was removed, with what it held; it is written anew", path)

    def _rotate(self, settled: date, today: date) -> bool:
        closed = [self._attempt(rotate_day, series, settled) for series in self._all]
        if self._settings.size_bytes:
            by_size = partial(rotate_size, per_day=self._settings.daily_rotations)
            closed += [self._attempt(by_size, series, today, self._settings.size_bytes) for series in self._daemon]
        return any(closed)

    def _tidy(self, today: date) -> None:
        if self._settings.compress:
            for series in self._all:
                self._attempt(finish, series)
        for series in self._daemon:
            self._attempt(purge, series, today, self._settings.keep_days)

    def _attempt(self, action: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether ``action`` did something."""
        try:
            return bool(action(*args, **kwargs))
        except OSError as error:
            self._counters.add("log.rotation_errors")
            self._pause_until = self._clock.monotonic() + _PAUSE_SECONDS
            _log.warning("A log could not be rotated: %s", os_text(error))
            return False
