"""secmon-db: stores what the agents of this node report of their hosts."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.link.client import LinkClient
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError, os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.daemons.daemon import Context
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.node_builder import Installation, read_installation
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import Answer, InventoryReader
from secmon.inventory.row_limits import RowLimits
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.db")

NAME = "secmon-db"
_FOLDERS = ("queue/db", "queue/events", "queue/events-inventory")
_SEGMENTS = 16
"""Parts in which the journal for the analysis is deleted."""
_IDLE_SECONDS = (0.02, 0.5)
"""Shortest and longest pause while there are no messages: it doubles."""
_RETRY_SECONDS = 1.0
_WAITING_ANSWERS = 10_000
"""Answers that may wait for the agent link; agents repeat their checks when one is dropped."""


def build(context: Context) -> "InventoryDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return InventoryDaemon(read_installation(context.paths))


class InventoryDaemon:
    """The reader of the agents' messages, and the sender of the answers."""

    name = NAME

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._store = InventoryStore(installation.paths.inventory_db)
        self._link = LinkClient(installation.paths.agent_link_socket)
        self._counters = Counters()
        self._events: JournalWriter | None = None
        self._reader: InventoryReader | None = None
        self._answers: asyncio.Queue[list[Answer]] = asyncio.Queue()
        self._unsent = 0
        self._stopping = asyncio.Event()
        self.tasks = Background()

    async def start(self) -> None:
        """Begin to store. Raises SecmonError 1005 when another process does, OSError, StoreFault."""
        await asyncio.to_thread(self._open)
        self.tasks.vital("reader", self._read)
        self.tasks.keep("answers", self._send_answers)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        """Store the current batch."""
        self._stopping.set()
        await self.tasks.ended("reader")
        await self.tasks.stop()
        if self._reader is not None:
            self._reader.close()
        if self._events is not None:
            self._events.close()
        self._store.close()

    async def reload(self) -> None:
        """No option of this daemon changes while it runs."""

    def counters(self) -> Mapping[str, Any]:
        reader = self._reader
        if reader is None:
            return {}
        shown = {"position": reader.position, "unread_bytes": reader.unread(), "lost": reader.lost}
        return self._counters.snapshot() | {f"inventory.{name}": value for name, value in shown.items()}

    def active_config(self) -> Mapping[str, Any]:
        """The public sections: this product makes no such copies of its stores, and has no such options."""
        return {"wdb": {"backup": [{"database": "global", "enabled": False}]}, "internal": {}}

    def _open(self) -> None:
        paths, clock = self._installation.paths, SystemClock()
        restore_folders(paths, _FOLDERS)
        option = self._installation.options.get
        limit = option("analysisd.events_mb") << 20
        self._events = JournalWriter(paths.inventory_events, clock, limit=limit, segment=limit // _SEGMENTS)
        self._reader = InventoryReader(
            self._store,
            paths.events,
            self._events,
            HANDLERS,
            clock=clock,
            counters=self._counters,
            limits=RowLimits(option("db.max_file_entries"), option("db.max_rows")),
        )

    async def _read(self) -> None:
        assert self._reader is not None, "opened first"
        failure = FailureLog(log, "What agents report is not stored", "What agents report is stored again")
        shortest, longest = _IDLE_SECONDS
        pause = shortest
        while not self._stopping.is_set():
            try:
                some, answers = await asyncio.to_thread(self._reader.step)
            except (OSError, SQLAlchemyError) as error:
                failure.failed(os_text(error) if isinstance(error, OSError) else str(error))
                await self._sleep(_RETRY_SECONDS)
                continue
            failure.succeeded()
            self._queue(list(answers))
            pause = shortest if some else min(longest, 2 * pause)
            if not some:
                await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        """Wait for ``seconds``, or for the stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _queue(self, answers: list[Answer]) -> None:
        if not answers:
            return
        if self._unsent + len(answers) > _WAITING_ANSWERS:
            self._counters.add("inventory.answers_dropped", len(answers))
            return
        self._unsent += len(answers)
        self._answers.put_nowait(answers)

    async def _send_answers(self) -> None:
        while True:
            answers = await self._answers.get()
            try:
                unsent = await self._link.send([(agent, f"#!-{text}") for agent, text in answers])
                self._counters.add("inventory.answers_sent", len(answers) - len(unsent))
                self._counters.add("inventory.answers_unsent", len(unsent))
            except SecmonError as error:  # agents repeat their checks
                self._counters.add("inventory.answers_unsent", len(answers))
                log.debug("Answers to agents could not be sent: %s", error)
            finally:
                self._unsent -= len(answers)
