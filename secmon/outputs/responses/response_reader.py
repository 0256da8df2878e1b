"""The reader of the engine's decisions: for agents, or for this server, each with a position of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from secmon.alerts.silences import Silences
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.config.responses import ActiveResponse
from secmon.engine.output.responses import AnsweredAlert
from secmon.journal.journal import Block, JournalReader
from secmon.outputs.alert import Alert
from secmon.outputs.responses.allow_list import AllowList

log = logging.getLogger("secmon.responses")

IDLE_SECONDS = 0.03
RETRY_SECONDS = 1.0
_READ_BYTES = 1 << 18

Answer = Callable[[ActiveResponse, Alert], Awaitable[None]]
"""Runs one response to an alert. It is bounded in time and raises nothing but programming errors."""
_decode = msgspec.json.Decoder(AnsweredAlert).decode


class ResponseReader:
    """Hands decisions on, in their order, and commits what is done: a kill repeats at most one block."""

    def __init__(
        self,
        name: str,
        folder: Path,
        answer: Answer,
        *,
        wants: Callable[[ActiveResponse, Alert], bool],
        allowed: AllowList,
        silences: Silences,
        oldest: timedelta,
        clock: Clock,
        counters: Counters,
    ) -> None:
        """``oldest``: a response to an alert that is older is not run: what it was to prevent has happened."""
        self._name = name
        self._folder = folder
        self._answer = answer
        self._wants = wants
        self._allowed = allowed
        self._silences = silences
        self._oldest = oldest
        self._clock = clock
        self._counters = counters
        self._failure = FailureLog(log, "Responses to alerts wait", "Responses to alerts are run again")

    async def run(self) -> None:
        """Until cancelled."""
        reader: JournalReader | None = None
        try:
            while True:
                try:
                    if reader is None:
                        reader = await asyncio.to_thread(JournalReader, self._folder, self._name)
                    blocks = reader.read(limit=_READ_BYTES)  # here: there are few, and a look takes microseconds
                except OSError as error:
                    await self._wait(error)
                    continue
                for block in blocks:
                    await self._handle(block)
                    await self._commit(reader, block.end)
                self._failure.succeeded()
                if not blocks:
                    await asyncio.sleep(IDLE_SECONDS)
        finally:
            if reader is not None:
                reader.close()

    async def _commit(self, reader: JournalReader, number: int) -> None:
        """Try until it succeeds: what was run is not run again meanwhile, nor anything after it."""
        while True:
            try:
                return await asyncio.to_thread(reader.commit, number)
            except OSError as error:
                await self._wait(error)

    async def _wait(self, error: OSError) -> None:
        self._failure.failed(os_text(error))
        await asyncio.sleep(RETRY_SECONDS)

    async def _handle(self, block: Block) -> None:
        self._silences.refresh()
        for event in block.events:
            try:
                decided = _decode(event)
            except msgspec.MsgspecError:
                self._counters.add("responses.malformed")
                continue
            alert = Alert.of(decided.alert)
            wanted = [one for one in decided.responses if self._wants(one, alert)]
            if wanted and self._permitted(alert, datetime.fromtimestamp(block.at, self._clock.now().tzinfo)):
                for one in wanted:
                    await self._answer(one, alert)

    def _permitted(self, alert: Alert, queued: datetime) -> bool:
        if self._allowed.holds(alert.text("data", "srcip")):
            self._counters.add("responses.allowed")
            return False
        if self._silences.hold(alert.fields, self._counters):
            self._counters.add("responses.silenced")
            return False
        if self._clock.now() - (alert.time or queued) > self._oldest:
            self._counters.add("responses.stale")
            return False
        return True
