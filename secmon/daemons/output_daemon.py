"""What the daemons that send alerts on have in common: each of their outputs is delivered by a task of its own."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from secmon.alerts.silences import Silences
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.log_series import alert_series
from secmon.common.paths import Paths
from secmon.daemons.installation_files import restore_folders
from secmon.outputs.follower import AlertFollower, Source
from secmon.outputs.position_file import forget_others, position_name

log = logging.getLogger("secmon.outputs")

_STOP_SECONDS = 5.0
"""For the calls in progress; alerts of those that are cut off are sent again after the next start."""
_FOLDERS = ("queue/outputs", "queue/outputs/alerts")


Follow = Callable[[str, Source], AlertFollower]
"""Makes what delivers to an output, from the name of its position and what all outputs share."""


class OutputDaemon:
    """Delivers the alerts of this node to outputs of one kind."""

    def __init__(
        self, name: str, paths: Paths, outputs: Iterable[tuple[str, Follow]], active: Mapping[str, Any]
    ) -> None:
        """``outputs``: the name of each, and what makes it; ``active``: the configuration in force by section."""
        self.name = name
        self.tasks = Background()
        self._paths = paths
        self._counters = Counters()
        self._active = active
        self._silences = Silences(paths.security_db)
        source = Source(alert_series(paths), paths.outputs, SystemClock(), self._counters, self._silences)
        self._deliveries = {key: follow(key, source) for key, follow in _named(name, outputs).items()}

    async def start(self) -> None:
        """Deliver. Raises OSError."""
        await asyncio.to_thread(self._prepare)
        for key, delivery in self._deliveries.items():
            await delivery.open()
            self.tasks.vital(key, delivery.run)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        """End the calls in progress, or cut them off."""
        for delivery in self._deliveries.values():
            delivery.stop()
        await asyncio.gather(*(self._ended(key) for key in self._deliveries))
        await self.tasks.stop()
        self._silences.close()

    async def reload(self) -> None:
        """The configuration is read at start."""

    def counters(self) -> Mapping[str, Any]:
        return {
            **self._counters.snapshot(),
            **{f"{key}.unread_bytes": _unread(one) for key, one in self._deliveries.items()},
            **{f"{key}.waits_for": one.waits_for for key, one in self._deliveries.items()},
        }

    def active_config(self) -> Mapping[str, Any]:
        return self._active

    def _prepare(self) -> None:
        restore_folders(self._paths, _FOLDERS)
        forget_others(self._paths.outputs, self.name.removeprefix("secmon-"), set(self._deliveries))

    async def _ended(self, key: str) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self.tasks.ended(key)
        except TimeoutError:
            log.warning("%s: its receiver takes too long; the last alerts are sent again after the next start", key)


def _named(daemon: str, outputs: Iterable[tuple[str, Follow]]) -> dict[str, Follow]:
    """Outputs by the names of their positions, which do not depend on the order of different ones."""
    found: dict[str, Follow] = {}
    for name, follow in outputs:
        key = position_name(daemon.removeprefix("secmon-"), name)
        number = sum(one.startswith(key) for one in found)
        found[f"{key}-{number + 1}" if number else key] = follow
    return found


def _unread(delivery: AlertFollower) -> int:
    try:
        return delivery.unread()
    except OSError as error:
        log.debug("Unread alerts cannot be counted: %s", os_text(error))
        return 0
