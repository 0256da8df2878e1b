"""Ids of agents: given once, and again only when all are used up."""

from sqlalchemy import Connection, func, literal, or_, select, union_all

from secmon.agents.names import MAX_ID, padded
from secmon.agents.registry.schema import agents, removed
from secmon.agents.registry.store import number, put
from secmon.common.errors import SecmonError


def take_id(connection: Connection, wanted: int | None) -> int:
    """``wanted`` if given, else the next id, after the highest the lowest free one.

    Raises 1708 for the id of the manager, 1725 when ids are used up.
    """
    following = number(connection, "next_id")
    agent = following if wanted is None else wanted
    if wanted is None and following > MAX_ID:
        agent = _lowest_free_id(connection)
    if agent > MAX_ID:
        raise SecmonError(1725, "all ids are used up")
    if agent <= 0:
        raise SecmonError(1708, f"agent {padded(agent)} is the manager")
    if agent >= following:
        put(connection, "next_id", agent + 1)
    return agent


def _lowest_free_id(connection: Connection) -> int:
    """The lowest id that no agent has or had, so that an agent with the highest id does not end enrolment."""
    used = union_all(select(literal(0).label("id")), select(agents.c.id), select(removed.c.id)).subquery()
    after = used.c.id + 1
    taken = or_(after.in_(select(agents.c.id)), after.in_(select(removed.c.id)))
    return int(connection.execute(select(func.min(after)).where(~taken)).scalar_one())


def reserve(connection: Connection, agent: int) -> None:
    """Make sure that ids up to this one are not assigned automatically."""
    if agent >= number(connection, "next_id"):
        put(connection, "next_id", agent + 1)
