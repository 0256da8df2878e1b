"""Renewing all lists on their schedules, on the master."""

import asyncio
import logging

from secmon.common.counters import Counters
from secmon.common.download import without_query
from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.paths import Paths
from secmon.config.followed_file import FollowedFile
from secmon.knowledge.lists.feed_states import FeedState
from secmon.knowledge.lists.feeds_yml import FEEDS_YML, MAX_BYTES, Feeds, ListFeed, parse_feeds
from secmon.knowledge.lists.renewal import ListRenewal

_log = logging.getLogger("secmon.modulesd.lists")

POLL_SECONDS = 5.0
"""Between two looks at ``feeds.yml`` and the schedules."""
_STORE_SECONDS = 60.0
"""Before a feed whose state could not be stored is tried again."""
AT_ONCE = 2
"""Lists that are renewed at the same time: the entries of each are in memory meanwhile."""


class FeedSchedule:
    """Follows ``feeds.yml``. The first failure of a feed is logged, and its next success."""

    def __init__(
        self, paths: Paths, renewal: ListRenewal, counters: Counters, *, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._renewal, self._poll_seconds, self._counters = renewal, poll_seconds, counters
        file = paths.lists / FEEDS_YML
        self._file = FollowedFile(file, parse_feeds, max_bytes=MAX_BYTES, log=_log, counters=counters)
        self._feeds: Feeds = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._store = FailureLog(_log, "States of feeds are not stored", "States of feeds are stored again")

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._read()
                await self._start_due()
                await asyncio.sleep(self._poll_seconds)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _read(self) -> None:
        feeds = await asyncio.to_thread(self._file.changed)
        if feeds is None:
            return
        for name in [name for name in self._running if feeds.get(name) != self._feeds.get(name)]:
            self._running.pop(name).cancel()
        if feeds != self._feeds:
            _log.info("%s: %d feeds", FEEDS_YML, len(feeds))
        self._feeds = feeds
        await asyncio.to_thread(self._renewal.states.retain, feeds)

    async def _start_due(self) -> None:
        self._running = {name: task for name, task in self._running.items() if not task.done()}
        due = await asyncio.to_thread(self._due)
        self._counters.set("lists.feeds", len(self._feeds))
        for feed in due:
            self._running[feed.name] = asyncio.create_task(self._renew(feed), name=f"list {feed.name}")

    def _due(self) -> list[ListFeed]:
        waiting = [feed for name, feed in self._feeds.items() if name not in self._running]
        return [feed for feed in waiting if self._renewal.is_due(feed)]

    async def _renew(self, feed: ListFeed) -> None:
        try:
            async with self._slots:
                before = await asyncio.to_thread(self._renewal.states.get, feed.name)
                after = await self._renewal.renew(feed)
        except OSError as error:
            self._store.failed(os_text(error))
            await asyncio.sleep(_STORE_SECONDS)  # its next try is not known
            return
        self._store.succeeded()
        _report(before, after)


def _report(before: FeedState | None, after: FeedState) -> None:
    name, source = after.feed.name, without_query(after.feed.url)
    failed_before = before is not None and before.failed_since is not None
    if after.failed_since is not None and not failed_before:
        _log.error("The list %s stays as it is: its feed %s fails: %s", name, source, after.error)
    elif after.failed_since is None and failed_before:
        _log.info("The list %s is renewed again from %s: %d entries", name, source, after.entries)
    elif after.failed_since is None and after.changed_at == after.renewed_at:
        _log.info("The list %s has changed: %d entries, %d lines left out", name, after.entries, after.left_out)
