"""The task of ``secmon-db`` that indexes the alerts of the node, beside the analysis that writes them."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from secmon.alerts.indexer import AlertIndexer
from secmon.alerts.store import AlertStore
from secmon.alerts.writer import StoreFault, StoreLimits
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.logfile.log_series import alert_series
from secmon.common.to_the_end import to_the_end
from secmon.config.alert_store import AlertStoreSettings
from secmon.daemons.node_builder import Installation

log = logging.getLogger("secmon.alerts")

IDLE_SECONDS = 0.25
"""Between two looks for new alerts."""
RETRY_SECONDS = 2.0
"""After a failure, such as a full disk."""


class AlertIndexTask:
    """Indexes until it is cancelled; after a failure it goes on at its last commit."""

    def __init__(self, installation: Installation, clock: Clock, counters: Counters) -> None:
        paths, settings = installation.paths, AlertStoreSettings.of(installation.main)
        self.enabled = settings.enabled
        self._store = AlertStore(paths.alert_store, clock)
        self._indexer = AlertIndexer(
            paths.alert_store,
            alert_series(paths),
            clock=clock,
            counters=counters,
            limits=store_limits(settings),
        )
        self._counters = counters
        self._failure = FailureLog(log, "Alerts are not indexed, they stay in their files", "Alerts are indexed again")

    async def run(self) -> None:
        """Index what is written."""
        try:
            while True:
                pause = await self._step()
                await asyncio.sleep(pause)
        finally:
            await asyncio.to_thread(self._indexer.close)

    async def _step(self) -> float:
        """Seconds until the next step."""
        try:
            more = await to_the_end(self._indexer.step)
        except (OSError, StoreFault) as error:
            self._counters.add("alerts.failures")
            self._failure.failed(os_text(error) if isinstance(error, OSError) else str(error))
            return RETRY_SECONDS
        self._failure.succeeded()
        return 0.0 if more else IDLE_SECONDS

    def counters(self) -> Mapping[str, Any]:
        """How far it is."""
        if not self.enabled:
            return {}
        return {
            "alerts.unread_bytes": self._indexer.unread(),
            "alerts.store_bytes": self._store.size(),
        }


def store_limits(settings: AlertStoreSettings) -> StoreLimits:
    """What the configuration says."""
    return StoreLimits(keep_days=settings.keep_days, max_bytes=settings.max_bytes)
