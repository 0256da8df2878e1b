"""Requests missing keys that the link reports: a bounded queue to the source, and its answers to the registry."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from secmon.agentlink.key_request.add_agent import AddAgent
from secmon.agentlink.key_request.answer import read_answer
from secmon.agentlink.key_request.failures import Failed, NoKey, Refused
from secmon.agentlink.key_request.sources import Source
from secmon.agents.link.wire import MissingKey
from secmon.agents.registry.entries import Entry
from secmon.common.background import Background
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.config.auth import KeyRequest

log = logging.getLogger("secmon.modulesd.keys")

RETRY_SECONDS = 1.0
"""Between two attempts to subscribe to the link."""
MAX_REMEMBERED = 1024
"""Requests whose last failure is remembered."""
COUNTERS = ("asked", "answered", "refused", "timed_out", "failed", "dropped")
_UNAVAILABLE = frozenset(
    {1005, 1021, 1725, 2013, 3012, 3013, 3018, 3020, 3021, 3022, 3023, 3036, 3050, 3051, 3052, 3053}
)
"""Codes of a registry that cannot be written or a master that cannot be reached: the agent is not at fault."""


class MissingKeySource(Protocol):
    """A link that publishes the missing keys of its agents."""

    def keys(self) -> AsyncGenerator[MissingKey, None]:
        """Missing keys from now on, without end. Raises 1014 when the link is gone."""


class KeyRequests:
    """Requests each key once at a time. A key that was not found is requested again when the agent comes again."""

    def __init__(
        self,
        settings: KeyRequest,
        source: Source,
        link: MissingKeySource,
        add_agent: AddAgent,
        *,
        clock: Clock,
        counters: Counters,
        tasks: Background | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """``tasks``: those of the daemon."""
        self._threads = settings.threads
        self._source, self._link, self._add_agent, self._counters = source, link, add_agent, counters
        self._retry, self._tasks = retry_seconds, tasks or Background()
        self._queue: asyncio.Queue[MissingKey] = asyncio.Queue(settings.queue_size)
        self._known: set[MissingKey] = set()
        self._warnings = WarningLimiter(log, clock)
        self._last_failures: dict[str, str] = {}
        for name in COUNTERS:
            self._count(name, 0)

    async def run(self) -> None:
        """Request the missing keys of the link; does not return."""
        helpers = {f"key request {number + 1}": self._work for number in range(self._threads)}
        helpers["warnings about key requests"] = self._warnings.run
        for name, work in helpers.items():
            self._tasks.keep(name, work)
        try:
            await self._follow()
        finally:
            await self._tasks.stop(*helpers)
            self._warnings.flush()

    def request(self, missing: MissingKey) -> None:
        """Queue a request, unless there is one already."""
        if missing in self._known:
            return
        try:
            self._queue.put_nowait(missing)
        except asyncio.QueueFull:
            self._count("dropped")
            return
        self._known.add(missing)

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self._link.keys()) as keys:
                    async for missing in keys:
                        self.request(missing)
            except SecmonError as error:
                log.debug("no key requests: %s", error.message)
            await asyncio.sleep(self._retry)

    async def _work(self) -> None:
        while True:
            missing = await self._queue.get()
            try:
                await self._request_key(missing)
            finally:
                self._known.discard(missing)

    async def _request_key(self, missing: MissingKey) -> None:
        self._count("asked")
        try:
            entry = await self._fetch(missing)
        except NoKey as reason:
            self._count(reason.counter)
            # A failure that does not depend on the agent is logged once for all agents.
            self._log_failure("" if isinstance(reason, Failed) else str(missing), missing, str(reason))
            return
        self._count("answered")
        self._last_failures.pop("", None)
        self._last_failures.pop(str(missing), None)
        log.info("Agent %s (%s) is registered, as the key request %s was answered", entry.padded, entry.name, missing)

    async def _fetch(self, missing: MissingKey) -> Entry:
        new = read_answer(await self._source.request(missing))
        try:
            return await self._add_agent(new)
        except SecmonError as error:
            raise (Failed if error.code in _UNAVAILABLE else Refused)(str(error)) from None

    def _log_failure(self, subject: str, missing: MissingKey, cause: str) -> None:
        """Log a failure, unless it is the same as the last time."""
        if self._last_failures.pop(subject, None) != cause:
            self._warnings.warn("Key requests", "The key request %s yields no key: %s", missing, cause)
        self._last_failures[subject] = cause
        if len(self._last_failures) > MAX_REMEMBERED:
            del self._last_failures[next(iter(self._last_failures))]

    def _count(self, name: str, amount: int = 1) -> None:
        self._counters.add(f"key_requests.{name}", amount)
