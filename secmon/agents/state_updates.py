"""Updates of agents' states (agent-link.md 6.5-6.8), in batches: one transaction for messages of many agents.

All functions use a connection of ``AgentStore.write()``. Times are whole seconds since 1970. Changed rows get
``changed`` from ``meta.sequence``, by which ``state_reports`` finds what to send to the master.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import Connection, bindparam, or_, select, update

from secmon.agents.registry.schema import ConfigStatus, agents
from secmon.agents.registry.store import advance
from secmon.agents.wire.keepalive import Keepalive

HIGHER_VERSION = 1
UNKNOWN_VERSION = 2
SHUT_DOWN = 3
SILENT = 4
RESET = 5
"""Status codes (agent-link.md 6.7)."""

FAR_FUTURE_SECONDS = 86_400
"""Times further ahead than this are not explained by a clock that was corrected."""

MAX_STATE_TEXT = 1024
"""Characters of one value; the longest of real systems have a few hundred. A page of 500 agents must stay an answer."""

Values: TypeAlias = dict[str, Any]


class Origin(NamedTuple):
    """Where agents are connected: the node's name, and the name of its host."""

    node: str
    host: str


class Startup(NamedTuple):
    """An accepted startup."""

    agent: int
    at: int

    def values(self, origin: Origin) -> Values:
        return {
            "connection_status": "pending",
            "last_keepalive": self.at,
            "disconnection_time": 0,
            "status_code": 0,
            "node_name": origin.node,
            "manager_host": origin.host,
        }


class Refusal(NamedTuple):
    """A refused startup; ``version`` as the agent sent it, None if it sent none."""

    agent: int
    version: str | None

    def values(self, _origin: Origin) -> Values:
        if self.version is None:
            return {"status_code": UNKNOWN_VERSION}
        return {"status_code": HIGHER_VERSION, "version": _bounded(self.version)}


class ChangedKeepalive(NamedTuple):
    """A keepalive with new content. ``labels``: those of the agent, then the node's own, with their marks."""

    agent: int
    at: int
    keepalive: Keepalive
    group_config_status: ConfigStatus
    labels: Sequence[tuple[str, str]]

    def values(self, origin: Origin) -> Values:
        said = self.keepalive
        values: Values = {
            **{name: _bounded(value) for name, value in msgspec.structs.asdict(said.system).items()},
            "version": _bounded(said.version),
            "config_sum": _bounded(said.config_sum),
            "merged_sum": _bounded(said.merged_sum),
            "group_config_status": self.group_config_status,
            "labels": msgspec.json.encode(self.labels).decode(),
            "manager_host": origin.host,
            **UnchangedKeepalive(self.agent, self.at).values(origin),
        }
        if said.agent_ip:
            values["ip"] = _bounded(said.agent_ip)
        return values


def _bounded(text: str | None) -> str | None:
    return None if text is None else text[:MAX_STATE_TEXT]


class UnchangedKeepalive(NamedTuple):
    """A keepalive with the same content as before."""

    agent: int
    at: int

    def values(self, origin: Origin) -> Values:
        return {
            "connection_status": "active",
            "last_keepalive": self.at,
            "disconnection_time": 0,
            "status_code": 0,
            "node_name": origin.node,
        }


class ConfigStatusChange(NamedTuple):
    """A change of the group's files, which makes the agent synchronized or not, without a new keepalive."""

    agent: int
    status: ConfigStatus

    def values(self, _origin: Origin) -> Values:
        return {"group_config_status": self.status}


class Shutdown(NamedTuple):
    """The agent has announced that it stops."""

    agent: int
    at: int

    def values(self, _origin: Origin) -> Values:
        return {"connection_status": "disconnected", "disconnection_time": self.at, "status_code": SHUT_DOWN}


StateUpdate: TypeAlias = Startup | Refusal | ChangedKeepalive | UnchangedKeepalive | ConfigStatusChange | Shutdown


class SilentAgent(NamedTuple):
    """An agent whose keepalives have stopped."""

    id: int
    name: str
    register_ip: str
    last_keepalive: int


def apply(connection: Connection, updates: Iterable[StateUpdate], origin: Origin) -> None:
    """Store ``updates`` in their order; those of agents that do not exist are dropped."""
    full: dict[int, Values] = {}
    keepalives: dict[int, int] = {}
    for one in updates:
        if isinstance(one, UnchangedKeepalive) and one.agent not in full:
            keepalives[one.agent] = one.at
        else:
            if one.agent in keepalives:  # keep the order within an agent
                full[one.agent] = UnchangedKeepalive(one.agent, keepalives.pop(one.agent)).values(origin)
            full.setdefault(one.agent, {}).update(one.values(origin))
    if not full and not keepalives:
        return
    sequence = advance(connection, "sequence")
    for agent in _need_full_update(connection, keepalives, origin.node):
        full[agent] = UnchangedKeepalive(agent, keepalives.pop(agent)).values(origin)
    _write_keepalives(connection, keepalives, sequence)
    _write(connection, full, sequence)


def reset(connection: Connection, node: str, *, now: int) -> int:
    """Set the agents of ``node`` to disconnected, as its link has just started; return how many were not.

    This is not reported to the master: the agents connect again, perhaps to another node, which then reports them.
    """
    here = (agents.c.node_name == node, agents.c.connection_status.in_(("active", "pending")))
    values = {"connection_status": "disconnected", "disconnection_time": now, "status_code": RESET}
    return connection.execute(update(agents).where(*here).values(**values, reported=agents.c.changed)).rowcount


def sweep(connection: Connection, *, now: int, limit: int) -> list[SilentAgent]:
    """Set agents that are silent for more than ``limit`` seconds to disconnected; return them by id.

    So are agents whose last keepalive is far in the future, as that time is wrong.
    """
    heard = agents.c.last_keepalive
    silent = (
        agents.c.connection_status.in_(("active", "pending")),
        or_(heard < now - limit, heard > now + FAR_FUTURE_SECONDS),
    )
    columns = (agents.c.id, agents.c.name, agents.c.register_ip, agents.c.last_keepalive)
    lost = [SilentAgent(*row) for row in connection.execute(select(*columns).where(*silent).order_by(agents.c.id))]
    if lost:
        values = {"connection_status": "disconnected", "disconnection_time": now, "status_code": SILENT}
        connection.execute(update(agents).where(*silent).values(values))
    return lost


def _need_full_update(connection: Connection, keepalives: Mapping[int, int], node: str) -> list[int]:
    """Agents with keepalives of which more columns than the time must be written."""
    other = or_(
        agents.c.connection_status != "active",
        agents.c.node_name != node,
        agents.c.disconnection_time != 0,
        agents.c.status_code != 0,
    )
    found: list[int] = []
    ids = list(keepalives)
    for start in range(0, len(ids), 1000):
        some = ids[start : start + 1000]
        found += connection.execute(select(agents.c.id).where(agents.c.id.in_(some), other)).scalars()
    return found


def _write_keepalives(connection: Connection, keepalives: Mapping[int, int], sequence: int) -> None:
    if keepalives:
        statement = update(agents).where(agents.c.id == bindparam("agent")).values(last_keepalive=bindparam("at"))
        rows = [{"agent": agent, "at": at} for agent, at in keepalives.items()]
        connection.execute(statement.values(changed=sequence), rows)


def _write(connection: Connection, full: Mapping[int, Values], sequence: int) -> None:
    """One statement for each set of columns: there are few."""
    by_columns: dict[tuple[str, ...], list[Values]] = {}
    for agent, values in full.items():
        row = {f"new_{name}": value for name, value in values.items()}
        by_columns.setdefault(tuple(values), []).append(row | {"agent": agent})
    for names, rows in by_columns.items():
        statement = update(agents).where(agents.c.id == bindparam("agent"))
        statement = statement.values({name: bindparam(f"new_{name}") for name in names} | {"changed": sequence})
        connection.execute(statement, rows)
