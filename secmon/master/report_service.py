"""The Reports service: states of agents from workers (cluster.md 4.3)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeVar

import grpc
import msgspec
from grpc import aio
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore
from secmon.agents.report_checks import MAX_ID, ReportClock
from secmon.agents.state_reports import BATCH, KeepaliveReport, StateReport, store_keepalives, store_states
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import storage_reason

log = logging.getLogger("secmon.clusterd.agents")

T = TypeVar("T", StateReport, KeepaliveReport)

NOTICEABLE_SECONDS = 5.0
"""Smaller differences between clocks are not corrected."""

Context = aio.ServicerContext[Any, Any]


class ReportingWorker(Protocol):
    """A connected worker; ``skew``: seconds that its clock is ahead of ours."""

    name: str

    @property
    def skew(self) -> float: ...


class ReportListener(Protocol):
    """Records when workers report."""

    def agents_reported(self, node: str, started: float) -> None:
        """``node`` has reported agents; the report arrived at ``started``, seconds since 1970."""


class ReportService(pb_grpc.ReportsServicer):
    """Served on the cluster port. A report is acknowledged when it is stored."""

    def __init__(
        self,
        store: AgentStore,
        *,
        authorize: Callable[[Context], ReportingWorker],
        health: ReportListener,
        clock: Clock,
        counters: Counters,
        max_skew_seconds: float,
    ) -> None:
        """``authorize`` raises SecmonError for callers without a session."""
        self._store, self._authorize, self._health = store, authorize, health
        self._clock, self._counters, self._max_skew_seconds = clock, counters, max_skew_seconds
        self._trouble = FailureLog(
            log, "agent reports of workers cannot be stored", "agent reports of workers are stored again"
        )

    async def ReportAgents(self, request: pb.AgentReport, context: Context) -> pb.AgentReportReply:
        """Store the states of a worker's agents."""
        try:
            caller = self._authorize(context)
            started = self._clock.now().timestamp()
            max_skew = self._max_skew_seconds
            times = ReportClock(latest=int(started + max_skew), ahead=skew_correction(caller.skew, max_skew))
            reply, count = await asyncio.to_thread(self._take, caller.name, request, times)
            self._trouble.succeeded()
            self._counters.add("agents.reported", count)
            self._health.agents_reported(caller.name, started)
            return reply
        except SecmonError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except msgspec.MsgspecError as error:
            self._counters.add("agents.reports_refused")
            log.error("an agent report of worker %s cannot be decoded: %s", caller.name, error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (OSError, SQLAlchemyError) as error:  # the worker keeps the report and tries again
            self._trouble.failed(storage_reason(error))
            self._counters.add("agents.report_failures")
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the master cannot store them: {storage_reason(error)}")

    def _take(self, node: str, request: pb.AgentReport, times: ReportClock) -> tuple[pb.AgentReportReply, int]:
        states, touches = _read(request.full, _read_states), _read(request.touched, _read_touches)
        with self._store.write() as connection:
            refused = store_states(connection, node, states, times)
            incomplete, false = store_keepalives(connection, node, touches, times)
        refused |= false
        if refused:
            self._counters.add("agents.reports_refused", len(refused))
            first = next(iter(refused.values()))
            log.error("%d rows of worker %s are refused (3045), the first: %s", len(refused), node, first)
        named = [agent for agent in refused if 0 < agent <= MAX_ID]
        return pb.AgentReportReply(incomplete=incomplete, refused=named), len(states) + len(touches) - len(refused)


def skew_correction(skew: float, max_skew: float) -> int:
    """Whole seconds to subtract from a worker's times; ``max_skew`` at most, beyond which its session ends.

    Small differences are not corrected: the messages by which clocks are compared may be that late.
    """
    return round(min(max_skew, max(-max_skew, skew))) if abs(skew) >= NOTICEABLE_SECONDS else 0


_MAX_ROWS = msgspec.Meta(max_length=BATCH)  # checked before the rows are decoded, so that millions cost nothing
_read_states = msgspec.msgpack.Decoder(Annotated[list[StateReport], _MAX_ROWS]).decode
_read_touches = msgspec.msgpack.Decoder(Annotated[list[KeepaliveReport], _MAX_ROWS]).decode


def _read(data: bytes, decode: Callable[[bytes], list[T]]) -> list[T]:
    return decode(data) if data else []
