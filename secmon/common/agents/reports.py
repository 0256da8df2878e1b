"""Agents' states on their way from a worker to the master (cluster.md 4.3).

The rows themselves are the outbox: one whose ``changed`` is above ``reported`` waits until the master has confirmed it.
So nothing is lost when either side dies, and an agent that changes often is sent once.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, bindparam, func, or_, select, update

from secmon.common.agents.schema import STATE, agents
from secmon.common.errors import SecmonError

BATCH = 1000
"""Agents in one report."""

REPORTED = tuple(name for name in STATE if name != "node_name")
"""The master knows by itself which node reports."""

_MOMENT = "last_keepalive"
_NUMBERS = frozenset(name for name in REPORTED if isinstance(agents.c[name].type, Integer))


class State(msgspec.Struct, array_like=True, frozen=True):
    """An agent's whole state; ``values`` in the order of ``REPORTED``."""

    id: int
    values: tuple[str | int | None, ...]


class Touch(msgspec.Struct, array_like=True, frozen=True):
    """An active agent that sent a keepalive at ``last_keepalive`` (seconds since 1970) and is otherwise unchanged."""

    id: int
    last_keepalive: int


class Waiting(msgspec.Struct, frozen=True):
    """A state that the master has not confirmed, at ``changed``."""

    state: State
    changed: int

    @property
    def touch(self) -> Touch | None:
        """The short form; None for an agent that is not active."""
        values = dict(zip(REPORTED, self.state.values, strict=True))
        keepalive = values["last_keepalive"]
        return (
            Touch(self.state.id, keepalive)
            if values["connection_status"] == "active" and isinstance(keepalive, int)
            else None
        )

    @property
    def lasting(self) -> int:
        """A hash of what a keepalive alone does not change; good within this process."""
        return hash(tuple(value for name, value in zip(REPORTED, self.state.values, strict=True) if name != _MOMENT))


def waiting(connection: Connection, limit: int = BATCH) -> list[Waiting]:
    """States to report, the oldest change first."""
    columns = [agents.c[name] for name in REPORTED]
    rows = connection.execute(
        select(agents.c.id, agents.c.changed, *columns)
        .where(agents.c.changed > agents.c.reported)
        .order_by(agents.c.changed)
        .limit(limit)
    )
    return [Waiting(State(row[0], tuple(row[2:])), row[1]) for row in rows]


def confirm(connection: Connection, reported: Sequence[Waiting]) -> None:
    """The master has these; what changed since waits on."""
    if reported:
        statement = update(agents).where(agents.c.id == bindparam("agent")).values(reported=bindparam("at"))
        connection.execute(statement, [{"agent": one.state.id, "at": one.changed} for one in reported])


def take(connection: Connection, node: str, states: Iterable[State]) -> None:
    """Write what ``node`` reported of agents that exist. Raises SecmonError 3045 for rows that make no sense.

    An agent that moved is reported by both nodes for a moment: what is older than the state known from another node
    is dropped, by the later of keepalive and disconnection.
    """
    rows = [_row(state) for state in states]
    known = func.max(func.coalesce(agents.c.last_keepalive, 0), agents.c.disconnection_time)
    statement = (
        update(agents)
        .where(agents.c.id == bindparam("agent"), or_(agents.c.node_name == node, known <= bindparam("moment")))
        .values({name: bindparam(f"new_{name}") for name in REPORTED} | {"node_name": node})
    )
    if rows:
        connection.execute(statement, rows)


def _row(state: State) -> dict[str, Any]:
    if len(state.values) != len(REPORTED):
        raise SecmonError(3045, f"the state of agent {state.id} has {len(state.values)} values, not {len(REPORTED)}")
    values = dict(zip(REPORTED, state.values, strict=True))
    wrong = [
        name for name, value in values.items() if value is not None and isinstance(value, int) != (name in _NUMBERS)
    ]
    if wrong:
        raise SecmonError(3045, f"the state of agent {state.id} has values of the wrong type: {', '.join(wrong)}")
    row: dict[str, Any] = {f"new_{name}": value for name, value in values.items()}
    moment = max(int(values["last_keepalive"] or 0), int(values["disconnection_time"] or 0))
    return row | {"agent": state.id, "moment": moment}


def touch(connection: Connection, node: str, touches: Sequence[Touch]) -> list[int]:
    """Note keepalives; returns the agents of which the master needs the whole state.

    Those are the ones that another node had meanwhile, and those that count as disconnected because nothing was heard
    of their node. An agent that no longer exists is not asked for.
    """
    ids = [one.id for one in touches]
    columns = (agents.c.id, agents.c.node_name, agents.c.connection_status)
    found = connection.execute(select(*columns).where(agents.c.id.in_(ids)))
    fine = {agent: (holder, status) == (node, "active") for agent, holder, status in found}
    statement = update(agents).where(agents.c.id == bindparam("agent")).values(last_keepalive=bindparam("at"))
    rows = [{"agent": one.id, "at": one.last_keepalive} for one in touches if fine.get(one.id)]
    if rows:
        connection.execute(statement, rows)
    return [one.id for one in touches if not fine.get(one.id, True)]


def count_active(connection: Connection, node: str) -> int:
    """Agents that ``node`` serves now."""
    here = (agents.c.node_name == node, agents.c.connection_status == "active")
    return connection.execute(select(func.count()).select_from(agents).where(*here)).scalar_one()
