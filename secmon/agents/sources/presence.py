"""Which agents there are, and which of them are connected where."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore

HEARD_SECONDS = 180
"""Since its last keepalive an agent counts as connected for so long; agents send one every 10 to 60 seconds."""


class PresentAgent(NamedTuple):
    """An agent. ``node``: where it is connected; None: nowhere."""

    name: str
    address: str
    groups: tuple[str, ...]
    node: str | None


class Presence(NamedTuple):
    """Numbers of all agents, and of those that are connected to this node."""

    registered: frozenset[int]
    here: frozenset[int]


def read_agents(store: AgentStore, now: int) -> Mapping[int, PresentAgent]:
    """All agents by number. ``now``: seconds since 1970. Blocks. Raises SQLAlchemyError, OSError."""
    c = agents.c
    columns = (c.id, c.name, c.register_ip, c.group, c.node_name, c.connection_status, c.last_keepalive)
    with store.read() as connection:
        rows = connection.execute(select(*columns)).all()
    return {
        number: PresentAgent(
            name,
            address,
            tuple((group or "").split(",")),
            node if status == "active" and abs(now - (heard or 0)) <= HEARD_SECONDS else None,
        )
        for number, name, address, group, node, status, heard in rows
    }


def read_presence(store: AgentStore, node: str | None, now: int) -> Presence:
    """As :func:`read_agents`. ``node``: the name of this node; None: there is no other one."""
    found = read_agents(store, now)
    here = (number for number, one in found.items() if one.node is not None and node in (None, one.node))
    return Presence(frozenset(found), frozenset(here))
