"""The sources of a node's events from one process to the next, and as the master asks for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.sources.presence import Presence
from secmon.agents.sources.reports import MAX_ROWS, SourceQuestion, SourceReport
from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.paths import Paths
from secmon.engine.sources.observation import Observation
from secmon.engine.sources.source_table import Pauses, SourceTable
from secmon.journal.lag import stored_bytes

log = logging.getLogger("secmon.analysisd.sources")

CHECK_SECONDS = 5.0
PRESENCE_SECONDS = 30.0
SAVE_SECONDS = 300.0
"""Between two saves; a process that is killed loses the times since the last one."""
_ROOM = 0.75
"""A journal that is fuller than this may refuse events, whichever of its readers is behind."""

AgentPresence = Callable[[], Awaitable[Presence]]
_decoder = msgspec.msgpack.Decoder(list[Pauses])


class SourceKeeper:
    """The table, for the analysis thread to fill, with the observation by which its times are judged."""

    def __init__(self, paths: Paths, clock: Clock, presence: AgentPresence, *, journal_limit: int) -> None:
        """``journal_limit``: bytes of the journal of agents' events."""
        self._paths, self._clock, self._presence, self._limit = paths, clock, presence, journal_limit
        self.observation = Observation(clock)
        self.table = SourceTable(self.observation.since)
        self._trouble = FailureLog(log, "the times of sources are not saved", "the times of sources are saved again")

    def load(self) -> None:
        """Continue with what an earlier process has saved; a file that cannot be read is left aside. Blocks."""
        try:
            kept = _decoder.decode(self._paths.source_times.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            reason = os_text(error) if isinstance(error, OSError) else str(error)
            log.warning("%s cannot be read, sources are learned again: %s", self._paths.source_times, reason)
            return
        self.table.restore(kept, self.observation.now())

    def save(self) -> None:
        """Blocks. A failure is logged, and tried again with the next save."""
        try:
            self._paths.source_times.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            write_file(self._paths.source_times, msgspec.msgpack.encode(self.table.kept()))
            self._trouble.succeeded()
        except OSError as error:
            self._trouble.failed(os_text(error))

    async def run(self) -> None:
        """Check, follow the agents and save, until cancelled."""
        follow_at = 0.0
        save_at = self._clock.monotonic() + SAVE_SECONDS
        while True:
            await asyncio.to_thread(self.check)
            if self._clock.monotonic() >= follow_at:
                follow_at = self._clock.monotonic() + PRESENCE_SECONDS
                await self._follow_agents()
            if self._clock.monotonic() >= save_at:
                save_at = self._clock.monotonic() + SAVE_SECONDS
                await asyncio.to_thread(self.save)
            await asyncio.sleep(CHECK_SECONDS)

    def check(self) -> None:
        """Whether events are received and analysed in time. Blocks."""
        try:
            refusing = stored_bytes(self._paths.events) > self._limit * _ROOM
        except OSError as error:
            log.debug("The journal cannot be measured: %s", os_text(error))
            refusing = True
        if self.observation.check(refusing=refusing):
            self.table.clamp(self.observation.now())
        self.table.begin = self.observation.since

    async def _follow_agents(self) -> None:
        try:
            found = await self._presence()
        except (SQLAlchemyError, OSError) as error:
            log.warning("The agents cannot be read, their sources are kept: %s", error)
            return
        await asyncio.to_thread(self.table.connected, found.registered, found.here, self.observation.now())

    def answer(self, question: SourceQuestion) -> SourceReport:
        """The sources that the master asks for. Blocks."""
        if question.silent is not None:
            self.table.mark(question.silent)
        seen, reached = self.observation, self.observation.reached  # before the rows: these may be newer
        rows = self.table.rows(question.after)
        return SourceReport(
            now=seen.now(),
            reached=reached,
            since=seen.since,
            epoch=seen.epoch,
            rows=rows[:MAX_ROWS],
            more=len(rows) > MAX_ROWS,
        )

    def counters(self) -> dict[str, Any]:
        table, jumped = self.table, self.observation.jumped
        return {"known": len(table), "unwatched_events": table.refused, "clock_jumps": jumped}
