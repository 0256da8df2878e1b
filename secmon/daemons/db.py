"""secmon-db: stores what the agents of this node report of their hosts, and indexes the alerts of the node."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.link.client import LinkClient
from secmon.agents.registry.store import AgentStore
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError, os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.config.vulnerability_detection import detects_vulnerabilities
from secmon.daemons.alert_index import AlertIndexTask
from secmon.daemons.daemon import Context
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.node_builder import Installation, read_installation
from secmon.inventory.agent_limits import AgentLimits
from secmon.inventory.byte_limits import ByteLimits
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import BATCH_BYTES, Answer, InventoryReader
from secmon.inventory.removed_agents import RemovedAgents
from secmon.inventory.row_limits import RowLimits
from secmon.inventory.store import InventoryStore, store_bytes
from secmon.inventory.vulnerabilities.scanner import VulnerabilityScanner
from secmon.journal.journal import JournalWriter
from secmon.knowledge.vulnerabilities.source import AdvisorySource

log = logging.getLogger("secmon.db")

NAME = "secmon-db"
_FOLDERS = ("queue/db", "queue/events", "queue/events-inventory", "queue/alert-store")
_SEGMENTS = 16
"""Parts in which the journal for the analysis is deleted."""
_IDLE_SECONDS = (0.02, 0.5)
"""Shortest and longest pause while there are no messages: it doubles."""
_RETRY_SECONDS = 1.0
_REGISTRY_SECONDS = 2.0
"""Time between two looks whether agents were removed from the registry."""
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
        self._registry = AgentStore(installation.paths.agents_db)
        self._removed = RemovedAgents(self._store, self._registry)
        self._clock = SystemClock()
        self._started = self._clock.now()
        self._next_look = 0.0
        self._link = LinkClient(installation.paths.agent_link_socket)
        self._counters = Counters()
        self._events: JournalWriter | None = None
        self._reader: InventoryReader | None = None
        self._advisories = AdvisorySource(installation.paths)
        self._scanner = self._new_scanner() if detects_vulnerabilities(installation.main) else None
        self._answers: asyncio.Queue[list[Answer]] = asyncio.Queue()
        self._unsent = 0
        self._alerts = AlertIndexTask(installation, self._clock, self._counters)
        self._stopping = asyncio.Event()
        self.tasks = Background()

    async def start(self) -> None:
        """Begin to store. Raises SecmonError 1005 when another process does, OSError, StoreFault."""
        await asyncio.to_thread(self._open)
        self.tasks.vital("reader", self._read)
        self.tasks.keep("answers", self._send_answers)
        if self._alerts.enabled:
            self.tasks.keep("alerts", self._alerts.run)

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
        self._advisories.close()
        self._store.close()
        self._registry.close()

    async def reload(self) -> None:
        """No option of this daemon changes while it runs."""

    def counters(self) -> Mapping[str, Any]:
        reader, started = self._reader, {"inventory.started": int(self._started.timestamp())}
        if reader is None:
            return started
        shown = {
            "position": reader.position,
            "unread_bytes": reader.unread(),
            "lost": reader.lost,
            "store_bytes": store_bytes(self._store.path),
            "answers_waiting": self._unsent,
        }
        waiting = {} if self._scanner is None else {"vulnerabilities.hosts_waiting": self._scanner.waiting}
        journal = {} if self._events is None else {"inventory.journal": self._events.counters()}
        figures = {f"inventory.{name}": value for name, value in shown.items()}
        return {**self._counters.snapshot(), **started, **figures, **waiting, **journal, **self._alerts.counters()}

    def active_config(self) -> Mapping[str, Any]:
        """The public sections: this product makes no such copies of its stores, and has no such options."""
        return {"wdb": {"backup": [{"database": "global", "enabled": False}]}, "internal": {}}

    def _open(self) -> None:
        paths, clock = self._installation.paths, self._clock
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
            limits=AgentLimits(
                RowLimits(option("db.max_file_entries"), option("db.max_rows")),
                ByteLimits(option("db.max_agent_mb") << 20),
            ),
        )

    def _new_scanner(self) -> VulnerabilityScanner:
        main, option = self._installation.main, self._installation.options.get
        return VulnerabilityScanner(
            self._store,
            self._registry,
            self._advisories,
            node=None if main.cluster.disabled else main.cluster.node_name,
            clock=self._clock,
            counters=self._counters,
            kept=timedelta(days=option("db.solved_vulnerability_days")),
        )

    def _scan(self, reader: InventoryReader) -> bool:
        """Compare hosts with advisories, unless rows of an interrupted transaction come first."""
        if self._scanner is None or not reader.settled or not self._scanner.step():
            return False
        reader.events_wait = True
        return True

    async def _read(self) -> None:
        assert self._reader is not None, "opened first"
        failure = FailureLog(log, "What agents report is not stored", "What agents report is stored again")
        shortest, longest = _IDLE_SECONDS
        pause = shortest
        while not self._stopping.is_set():
            try:
                some, answers = await asyncio.to_thread(self._reader.step)
                self._queue(list(answers))
                scanned = await asyncio.to_thread(self._scan, self._reader)
                await self._follow_registry(self._reader)
            except (OSError, SQLAlchemyError) as error:
                failure.failed(os_text(error) if isinstance(error, OSError) else str(error))
                await self._sleep(_RETRY_SECONDS)
                continue
            failure.succeeded()
            pause = shortest if some or scanned else min(longest, 2 * pause)
            if not (some or scanned):
                await self._sleep(pause)

    async def _follow_registry(self, reader: InventoryReader) -> None:
        """Delete the rows of agents that were removed, now and then. Raises SQLAlchemyError, StoreFault."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _REGISTRY_SECONDS
        caught_up = reader.unread() < BATCH_BYTES  # the next step stores it all
        removed = await asyncio.to_thread(self._removed.delete_rows, caught_up=caught_up)
        self._counters.add("inventory.agents_removed", removed)

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
