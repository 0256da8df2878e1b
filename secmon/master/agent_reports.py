"""What workers report of their agents (cluster.md 4.3)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import msgspec
from grpc import aio

from secmon.common.agents.reports import State, Touch, take, touch
from secmon.common.agents.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.rpc.gen import secmon_pb2 as pb
from secmon.common.rpc.gen import secmon_pb2_grpc as pb_grpc

log = logging.getLogger("secmon.clusterd.agents")

Context = aio.ServicerContext[Any, Any]


class Caller(Protocol):
    """A connected worker."""

    name: str


class Health(Protocol):
    """Where it shows that a worker reports."""

    def agents_reported(self, node: str, started: float) -> None:
        """``node`` has reported agents; the report came at ``started``, seconds since 1970."""


class ReportService(pb_grpc.ReportsServicer):
    """Served on the cluster port. A report is answered when it is on the disk."""

    def __init__(
        self,
        store: AgentStore,
        *,
        admit: Callable[[Context], Caller],
        health: Health,
        clock: Clock,
        counters: Counters,
    ) -> None:
        """``admit`` raises SecmonError for callers without a session."""
        self._store, self._admit, self._health = store, admit, health
        self._clock, self._counters = clock, counters

    async def ReportAgents(self, request: pb.AgentReport, context: Context) -> pb.AgentReportReply:
        """Take over the states of a worker's agents."""
        try:
            node = self._admit(context).name
            started = self._clock.now().timestamp()
            reply, count = await asyncio.to_thread(self._take, node, request)
            self._counters.add("agents.reported", count)
            self._health.agents_reported(node, started)
            return reply
        except SecmonError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except msgspec.MsgspecError as error:
            log.error("an agent report cannot be read: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def _take(self, node: str, request: pb.AgentReport) -> tuple[pb.AgentReportReply, int]:
        states = msgspec.msgpack.decode(request.full, type=list[State]) if request.full else []
        touches = msgspec.msgpack.decode(request.touched, type=list[Touch]) if request.touched else []
        with self._store.write() as connection:
            take(connection, node, states)
            incomplete = touch(connection, node, touches)
        return pb.AgentReportReply(incomplete=incomplete), len(states) + len(touches)
