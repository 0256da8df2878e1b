"""The module that asks for keys: what the link hands on goes through a bounded queue to the source, and what the source
answers to the registry."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from secmon.agentlink.key_request.admitting import Admit
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
"""Between two attempts to follow the link."""
MAX_TOLD = 1024
"""Requests whose last failure is remembered."""
COUNTERS = ("asked", "answered", "refused", "timed_out", "failed", "dropped")
_AWAY = frozenset({1005, 1021, 1725, 2013, 3012, 3013, 3018, 3020, 3021, 3022, 3023, 3036})
"""The registry could not be written or the master not asked: nothing is wrong with the agent."""


class Wanting(Protocol):
    """A link that hands on which keys its agents lack."""

    def keys(self) -> AsyncGenerator[MissingKey, None]:
        """From now on, without end. Raises 1014 when the link has closed the connection."""


class KeyRequests:
    """Asks for each key once at a time; what fails is asked for again when the agent comes again."""

    def __init__(
        self,
        settings: KeyRequest,
        source: Source,
        link: Wanting,
        admit: Admit,
        *,
        clock: Clock,
        counters: Counters,
        tasks: Background | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """``tasks``: those of the daemon."""
        self._threads = settings.threads
        self._source, self._link, self._admit, self._counters = source, link, admit, counters
        self._retry, self._tasks = retry_seconds, tasks or Background()
        self._queue: asyncio.Queue[MissingKey] = asyncio.Queue(settings.queue_size)
        self._known: set[MissingKey] = set()
        self._warnings = WarningLimiter(log, clock)
        self._told: dict[str, str] = {}
        for name in COUNTERS:
            self._count(name, 0)

    async def run(self) -> None:
        """Follow the link until cancelled, and request the keys."""
        helpers = {f"key request {number + 1}": self._work for number in range(self._threads)}
        helpers["warnings about key requests"] = self._warnings.run
        for name, work in helpers.items():
            self._tasks.keep(name, work)
        try:
            await self._follow()
        finally:
            await self._tasks.stop(*helpers)
            self._warnings.flush()

    def want(self, wanted: MissingKey) -> None:
        """Queue a request, unless it waits or is under way already."""
        if wanted in self._known:
            return
        try:
            self._queue.put_nowait(wanted)
        except asyncio.QueueFull:
            self._count("dropped")
            return
        self._known.add(wanted)

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self._link.keys()) as keys:
                    async for wanted in keys:
                        self.want(wanted)
            except SecmonError as error:
                log.debug("no key requests: %s", error.message)
            await asyncio.sleep(self._retry)

    async def _work(self) -> None:
        while True:
            wanted = await self._queue.get()
            try:
                await self._ask(wanted)
            finally:
                self._known.discard(wanted)

    async def _ask(self, wanted: MissingKey) -> None:
        self._count("asked")
        try:
            entry = await self._fetch(wanted)
        except NoKey as reason:
            self._count(reason.counter)
            # A failure that does not depend on the agent is logged once for all of them.
            self._tell("" if isinstance(reason, Failed) else str(wanted), wanted, str(reason))
            return
        self._count("answered")
        self._told.pop("", None)
        self._told.pop(str(wanted), None)
        log.info("Agent %s (%s) is registered, as the key request %s was answered", entry.padded, entry.name, wanted)

    async def _fetch(self, wanted: MissingKey) -> Entry:
        new = read_answer(await self._source.ask(wanted))
        try:
            return await self._admit(new)
        except SecmonError as error:
            raise (Failed if error.code in _AWAY else Refused)(str(error)) from None

    def _tell(self, subject: str, wanted: MissingKey, cause: str) -> None:
        """Log a failure, unless it is the same as the last time."""
        if self._told.pop(subject, None) != cause:
            self._warnings.warn("Key requests", "The key request %s yields no key: %s", wanted, cause)
        self._told[subject] = cause
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]

    def _count(self, name: str, amount: int = 1) -> None:
        self._counters.add(f"key_requests.{name}", amount)
