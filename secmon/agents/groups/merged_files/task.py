"""Keeping merged files up to date: scans when files or assignments change, and at a fixed interval."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.groups.merged_files.active_responses import write_active_responses
from secmon.agents.groups.merged_files.builder import MergedFileBuilder
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.wakeups import wake
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.files.watch import FolderWatch
from secmon.common.paths import Paths
from secmon.config.main import MainConfig

_log = logging.getLogger("secmon.modulesd.groups")

POLL_SECONDS = 1.0
"""Seconds between two checks of the registry for changed assignments."""

UNSTABLE_SECONDS = 2.1
"""Seconds until files that changed just before they were read are scanned again."""

_SHARED, _MULTIGROUPS = "etc/shared", "var/multigroups"
_ALL = frozenset({"etc", _SHARED})
"""Changed paths that do not identify a group."""


class MergedFileTask:
    """Builds ``merged.mg`` of groups and combinations, on the master (agent-link.md 7.3)."""

    def __init__(
        self, paths: Paths, store: AgentStore, config: MainConfig, *, clock: Clock, counters: Counters,
        reload_seconds: float, merging: bool = True,
    ) -> None:  # fmt: skip
        """``merging`` False builds nothing: existing merged files are used (``remoted.merge_shared``)."""
        self._paths, self._store, self._config = paths, store, config
        self._reload_seconds, self._merging = reload_seconds, merging
        self._builder = MergedFileBuilder(paths, clock=clock, counters=counters)
        self._wake = asyncio.Event()
        self._watch = FolderWatch(paths.root, self._wake.set)
        self._lock = asyncio.Lock()
        self._revision = -1
        self._combinations: tuple[str, ...] = ()
        self._unreadable = False
        self._rebuild_all = False

    async def run(self) -> None:
        """Work until cancelled. The table of active responses is written once: the configuration is read at start."""
        await asyncio.to_thread(write_active_responses, self._paths, self._config)
        if not self._merging:
            _log.warning("Shared files are not merged: remoted.merge_shared is 0")
            await asyncio.Event().wait()
        await self._watch.start()
        try:
            await self._build_until_cancelled()
        finally:
            await self._watch.stop()

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """A context in which nothing is built, for writing to the folders of groups: agents get all files or none."""
        async with self._lock:
            yield
        self._wake.set()
        wake(self._paths.merged_files_socket)

    def receive(self, groups: Collection[str]) -> None:
        """Set the groups whose merged files are downloaded and not built."""
        if self._builder.received != frozenset(groups):
            self._builder.received = frozenset(groups)
            self._rebuild_all = True
            self._wake.set()

    async def _build_until_cancelled(self) -> None:
        loop = asyncio.get_running_loop()
        full = again = loop.time()
        while True:
            started = loop.time()
            touched, wanted = self._take_changes()
            if started >= full:
                touched, wanted, full = None, True, started + self._reload_seconds
            if wanted or started >= again or await asyncio.to_thread(self._reassigned):
                await self._scan(touched)
                again = math.inf if self._builder.stable else loop.time() + UNSTABLE_SECONDS
            # With continuous changes half of the time is left to other tasks.
            await asyncio.sleep(loop.time() - started)
            await self._wait_for_change(min(full, again, loop.time() + POLL_SECONDS))

    def _take_changes(self) -> tuple[set[str] | None, bool]:
        """Groups whose files have changed (None: unknown), and whether a scan is needed."""
        self._wake.clear()
        paths = self._watch.take_touched()
        if paths is None or not _ALL.isdisjoint(paths) or self._rebuild_all:
            self._rebuild_all = False
            return None, True
        ours = [path for path in paths if path.startswith((f"{_SHARED}/", f"{_MULTIGROUPS}/"))]
        return {path.split("/")[2] for path in ours if path.startswith(f"{_SHARED}/")}, bool(ours)

    async def _wait_for_change(self, until: float) -> None:
        """Wait for a change, at most until ``until`` (the loop's time)."""
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
            await self._watch.debounce()
        except TimeoutError:
            return

    async def _scan(self, touched: set[str] | None) -> None:
        async with self._lock:
            written = await asyncio.to_thread(self._scan_now, touched)
        if written:
            wake(self._paths.merged_files_socket)
            shown = ", ".join(written[:10]) + (f" and {len(written) - 10} more" if len(written) > 10 else "")
            _log.info("Merged files written: %s", shown)

    def _scan_now(self, touched: set[str] | None) -> list[str]:
        self._watch.renew_watches()
        self._reassigned()
        return self._builder.scan(self._combinations, touched)

    def _reassigned(self) -> bool:
        """Read the combinations in use if the registry changed; whether it did. A failure keeps those known."""
        try:
            revision = self._store.revision()
            if revision == self._revision:
                return False
            with self._store.read() as connection:
                query = select(agents.c.group).where(agents.c.group.like("%,%")).distinct()
                self._combinations = tuple(connection.execute(query).scalars())
            self._revision, self._unreadable = revision, False
        except SQLAlchemyError as error:
            if not self._unreadable:
                _log.error("The registry of agents cannot be read; known combinations of groups are kept: %s", error)
            self._unreadable = True
            return False
        return True
