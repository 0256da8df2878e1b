"""Telling the master how this worker's agents are (cluster.md 4.3)."""

import asyncio
import logging
import sqlite3
from typing import Protocol

import msgspec
from grpc import aio
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore
from secmon.agents.state_reports import (
    BATCH,
    KeepaliveReport,
    PendingReport,
    StateReport,
    count_active,
    mark_reported,
    pending_reports,
)
from secmon.cluster.rpc.channels import ChannelClosed, closable
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.counters import Counters
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import storage_reason

log = logging.getLogger("secmon.clusterd.agents")

REPLY_SECONDS = 30.0
RETRY_SECONDS = 2.0


class Link(Protocol):
    """The link to the master, as far as the reporter needs it."""

    @property
    def channel(self) -> aio.Channel | None: ...


class AgentReporter:
    """Sends what waits in the store, batch by batch, for as long as there is a session.

    Most reports say that an agent is still there: these take a few bytes each, once the master has confirmed the rest
    in this session.
    """

    def __init__(
        self, store: AgentStore, link: Link, *, node: str, counters: Counters, pause_seconds: float = 1.0
    ) -> None:
        """``pause_seconds``: between two looks at the store."""
        self._store, self._link, self._node, self._counters = store, link, node, counters
        self._pause_seconds = pause_seconds
        self._confirmed: dict[int, int] = {}
        self._channel: aio.Channel | None = None
        self._trouble = FailureLog(
            log, "agents could not be reported to the master", "agents are reported to the master again"
        )
        self.active = 0
        """Agents that this node serves."""

    async def run(self) -> None:
        """Report until cancelled; a failure is tried again, and nothing is confirmed that the master has not taken."""
        while True:
            pause = self._pause_seconds
            try:
                if await self._report_batch():
                    continue
                self.active = await asyncio.to_thread(self._count)
            except ChannelClosed:
                log.debug("agents are reported in the next session")
            except aio.AioRpcError as error:
                log.info("agents could not be reported to the master: %s", error.details())
                pause = RETRY_SECONDS
            except (OSError, sqlite3.Error, SQLAlchemyError) as error:
                self._trouble.failed(storage_reason(error))
                self._counters.add("agents.report_failures")
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _report_batch(self) -> bool:
        """Report one batch; whether more may wait."""
        channel = self._link.channel
        if channel is None:
            return False
        if channel is not self._channel:  # a new session, perhaps with a master that was rebuilt
            self._channel = channel
            self._confirmed.clear()
        batch = await asyncio.to_thread(self._pending)
        if not batch:
            return False
        report = self._encode(batch)
        with closable():
            reply = await pb_grpc.ReportsStub(channel).ReportAgents(report, timeout=REPLY_SECONDS)
        incomplete = set(reply.incomplete)
        done = [one for one in batch if one.state.id not in incomplete]
        await asyncio.to_thread(self._mark_reported, done)
        self._confirmed.update((one.state.id, one.fingerprint) for one in done)
        for agent in {*incomplete, *reply.refused}:
            self._confirmed.pop(agent, None)
        self._trouble.succeeded()
        self._counters.add("agents.reported", len(done) - len(reply.refused))
        if reply.refused:
            self._counters.add("agents.reports_refused", len(reply.refused))
            log.error("the master refuses what this node has of agents: %s", ", ".join(map(str, reply.refused[:20])))
        return len(batch) == BATCH or bool(incomplete)

    def _encode(self, batch: list[PendingReport]) -> pb.AgentReport:
        full: list[StateReport] = []
        touched: list[KeepaliveReport] = []
        for one in batch:
            short = one.keepalive
            if short is not None and self._confirmed.get(one.state.id) == one.fingerprint:
                touched.append(short)
            else:
                full.append(one.state)
        encode = msgspec.msgpack.encode
        return pb.AgentReport(full=encode(full), touched=encode(touched))

    def _pending(self) -> list[PendingReport]:
        with self._store.read() as connection:
            return pending_reports(connection)

    def _mark_reported(self, done: list[PendingReport]) -> None:
        with self._store.write() as connection:
            mark_reported(connection, done)

    def _count(self) -> int:
        with self._store.read() as connection:
            return count_active(connection, self._node)
