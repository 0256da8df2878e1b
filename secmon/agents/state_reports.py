"""Reports of agents' states from a worker to the master (cluster.md 4.3).

The rows are the outbox: one whose ``changed`` is above ``reported`` is pending until the master has acknowledged it. So
no state is lost if either side crashes, and an agent that changes often is sent once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Integer, bindparam, case, func, or_, select, update

from secmon.agents.registry.schema import agents
from secmon.agents.report_checks import MAX_ID, REPORTED, ReportClock, checked_row
from secmon.common.errors import SecmonError

BATCH = 1000
"""Agents in one report."""

_VOLATILE = "last_keepalive"


class StateReport(msgspec.Struct, array_like=True, frozen=True):
    """An agent's whole state; ``values`` in the order of ``REPORTED``."""

    id: int
    values: tuple[str | int | None, ...]


class KeepaliveReport(msgspec.Struct, array_like=True, frozen=True):
    """An active agent, unchanged but for its latest keepalive, at ``last_keepalive`` (seconds since 1970)."""

    id: int
    last_keepalive: int


class PendingReport(msgspec.Struct, frozen=True):
    """A state that the master has not acknowledged. ``changed``: sequence number of its last change."""

    state: StateReport
    changed: int

    @property
    def keepalive(self) -> KeepaliveReport | None:
        """The short form; None for an agent that is not active."""
        values = dict(zip(REPORTED, self.state.values, strict=True))
        keepalive = values["last_keepalive"]
        return (
            KeepaliveReport(self.state.id, keepalive)
            if values["connection_status"] == "active" and isinstance(keepalive, int)
            else None
        )

    @property
    def fingerprint(self) -> int:
        """A hash of the values that a mere keepalive does not change; valid within this process."""
        return hash(tuple(value for name, value in zip(REPORTED, self.state.values, strict=True) if name != _VOLATILE))


def pending_reports(connection: Connection, limit: int = BATCH) -> list[PendingReport]:
    """States to report, the oldest change first."""
    columns = [agents.c[name] for name in REPORTED]
    rows = connection.execute(
        select(agents.c.id, agents.c.changed, *columns)
        .where(agents.c.changed > agents.c.reported)
        .order_by(agents.c.changed)
        .limit(limit)
    )
    return [PendingReport(StateReport(row[0], tuple(row[2:])), row[1]) for row in rows]


def mark_reported(connection: Connection, reported: Sequence[PendingReport]) -> None:
    """Record that the master has these; rows that have changed since stay pending."""
    if reported:
        statement = update(agents).where(agents.c.id == bindparam("agent")).values(reported=bindparam("at"))
        connection.execute(statement, [{"agent": one.state.id, "at": one.changed} for one in reported])


class ReportResult(NamedTuple):
    """The result of a report: agents whose whole state is needed, and refused agents with reasons."""

    incomplete: list[int]
    refused: dict[int, str]


def store_states(
    connection: Connection, node: str, states: Iterable[StateReport], times: ReportClock
) -> dict[int, str]:
    """Store states that ``node`` reported, of agents that exist; return the reasons (3045) of invalid rows by agent.

    For a moment both nodes report an agent that has moved. A state older than a stored one from another node is
    dropped, by the later of keepalive and disconnection. Stored times in the future are ignored.
    """
    rows, refused = _validated(states, times)
    known = func.max(func.coalesce(agents.c.last_keepalive, 0), agents.c.disconnection_time)
    allowed = or_(agents.c.node_name == node, known <= bindparam("moment"), known > times.latest)
    statement = (
        update(agents)
        .where(agents.c.id == bindparam("agent"), allowed)
        .values({name: bindparam(f"new_{name}") for name in REPORTED} | {"node_name": node})
        .values(last_keepalive=_latest("new_last_keepalive", times))
    )
    if rows:
        connection.execute(statement, rows)
    return refused


def _latest(reported: str, times: ReportClock) -> ColumnElement[int]:
    """The reported time of a keepalive, or the stored one if that is later: what has been heard stays heard.

    A worker whose clock was set back reports agents that it hears as silent until their next keepalive.
    """
    stored = func.coalesce(agents.c.last_keepalive, 0)
    return func.max(bindparam(reported, type_=Integer), case((stored <= times.latest, stored), else_=0))


def _validated(states: Iterable[StateReport], times: ReportClock) -> tuple[list[dict[str, Any]], dict[int, str]]:
    rows: list[dict[str, Any]] = []
    refused: dict[int, str] = {}
    for state in states:
        try:
            values = checked_row(state.id, state.values, times)
        except SecmonError as error:
            refused[state.id] = error.message
            continue
        moment = max(values["last_keepalive"] or 0, values["disconnection_time"])
        rows.append({f"new_{name}": value for name, value in values.items()} | {"agent": state.id, "moment": moment})
    return rows, refused


def store_keepalives(
    connection: Connection, node: str, touches: Sequence[KeepaliveReport], times: ReportClock
) -> ReportResult:
    """Store keepalives. The whole state is needed of agents that another node has reported meanwhile, and of those that
    were set to disconnected because their node was silent. Agents that do not exist are ignored.
    """
    moments = {one.id: times.read(one.last_keepalive) for one in touches if 0 < one.id <= MAX_ID}
    columns = (agents.c.id, agents.c.node_name, agents.c.connection_status)
    found = connection.execute(select(*columns).where(agents.c.id.in_(list(moments))))
    fine = {agent: (holder, status) == (node, "active") for agent, holder, status in found}
    statement = update(agents).where(agents.c.id == bindparam("agent")).values(last_keepalive=_latest("at", times))
    rows = [{"agent": agent, "at": at} for agent, at in moments.items() if at and fine.get(agent)]
    if rows:
        connection.execute(statement, rows)
    refused = {
        one.id: f"agent {one.id}: the time of its keepalive is impossible" for one in touches if not moments.get(one.id)
    }
    return ReportResult([agent for agent in moments if agent not in refused and not fine.get(agent, True)], refused)


def count_active(connection: Connection, node: str) -> int:
    """Number of active agents of ``node``."""
    here = (agents.c.node_name == node, agents.c.connection_status == "active")
    return connection.execute(select(func.count()).select_from(agents).where(*here)).scalar_one()
