"""Reports the states of this worker's agents to the master (cluster.md 4.3)."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator

import msgspec
from grpc import aio
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore
from secmon.agents.state_reports import (
    BATCH,
    PendingReport,
    count_active,
    mark_reported,
    pending_reports,
)
from secmon.cluster.rpc.closed_channel import ChannelClosed, closable
from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.counters import Counters
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import storage_reason
from secmon.worker.link_listener import Link

log = logging.getLogger("secmon.clusterd.agents")

REPLY_SECONDS = 30.0
RETRY_SECONDS = 2.0


class AgentReporter:
    """Sends pending states from the store, batch by batch, while there is a session.

    Most rows are keepalives of unchanged agents. They take a few bytes each, once the master has confirmed the agent's
    whole state in this session.
    """

    def __init__(
        self, store: AgentStore, link: Link, *, node: str, counters: Counters, pause_seconds: float = 1.0
    ) -> None:
        """``pause_seconds``: between two polls of the store."""
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
        """Report until cancelled. Failures are retried; rows stay pending until the master has acknowledged them."""
        while True:
            pause = self._pause_seconds
            try:
                if await self._report_batch():
                    continue
                self.active = await asyncio.to_thread(self._count)
            except ChannelClosed:
                log.debug("the session ended; agents are reported in the next one")
            except aio.AioRpcError as error:
                log.info("agents could not be reported to the master: %s", error.details())
                pause = RETRY_SECONDS
            except (OSError, sqlite3.Error, SQLAlchemyError) as error:
                self._trouble.failed(storage_reason(error))
                self._counters.add("agents.report_failures")
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _report_batch(self) -> bool:
        """Report one batch; return whether more may be pending."""
        channel = self._link.channel
        if channel is None:
            return False
        if channel is not self._channel:  # a new session, perhaps with a reinstalled master
            self._channel = channel
            self._confirmed.clear()
        batch = await asyncio.to_thread(self._pending)
        incomplete = False
        for report, reported in self._encode(batch):
            incomplete |= await self._send(channel, report, reported)
        return len(batch) == BATCH or incomplete

    async def _send(self, channel: aio.Channel, report: pb.AgentReport, reported: list[PendingReport]) -> bool:
        """Send one report; return whether the master needs the whole state of some agents."""
        with closable():
            reply = await pb_grpc.ReportsStub(channel).ReportAgents(report, timeout=REPLY_SECONDS)
        incomplete = set(reply.incomplete)
        done = [one for one in reported if one.state.id not in incomplete]
        await asyncio.to_thread(self._mark_reported, done)
        self._confirmed.update((one.state.id, one.fingerprint) for one in done)
        for agent in {*incomplete, *reply.refused}:
            self._confirmed.pop(agent, None)
        self._trouble.succeeded()
        self._counters.add("agents.reported", len(done) - len(reply.refused))
        if reply.refused:
            self._counters.add("agents.reports_refused", len(reply.refused))
            log.error("the master has refused the states of these agents: %s", ", ".join(map(str, reply.refused[:20])))
        return bool(incomplete)

    def _encode(self, batch: list[PendingReport]) -> Iterator[tuple[pb.AgentReport, list[PendingReport]]]:
        """``batch`` as reports of about ``PIECE_BYTES`` with their rows; larger ones would delay heartbeats."""
        rows: dict[bool, list[msgspec.Raw]] = {True: [], False: []}
        reported: list[PendingReport] = []
        size = 0
        for one in batch:
            keepalive = one.keepalive if self._confirmed.get(one.state.id) == one.fingerprint else None
            row = _encoder.encode(one.state if keepalive is None else keepalive)
            if reported and size + len(row) > PIECE_BYTES:
                yield _report(rows), reported
                rows, reported, size = {True: [], False: []}, [], 0
            rows[keepalive is None].append(msgspec.Raw(row))
            reported.append(one)
            size += len(row)
        if reported:
            yield _report(rows), reported

    def _pending(self) -> list[PendingReport]:
        with self._store.read() as connection:
            return pending_reports(connection)

    def _mark_reported(self, done: list[PendingReport]) -> None:
        with self._store.write() as connection:
            mark_reported(connection, done)

    def _count(self) -> int:
        with self._store.read() as connection:
            return count_active(connection, self._node)


_encoder = msgspec.msgpack.Encoder()


def _report(rows: dict[bool, list[msgspec.Raw]]) -> pb.AgentReport:
    """``rows`` by whether they are whole states."""
    return pb.AgentReport(full=_encoder.encode(rows[True]), touched=_encoder.encode(rows[False]))
