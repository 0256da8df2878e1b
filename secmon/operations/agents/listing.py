"""Reading agents from the registry: permissions as conditions, pages, summaries."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Subquery

from secmon.agents.registry.agent_fields import MANAGER_ID, Condition, in_scope, manager_row, own_system
from secmon.agents.registry.queries import count_states, read_page, unknown_ids
from secmon.agents.registry.store import number
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.query import Page, Query
from secmon.security.rbac.authorization import Grant, Require
from secmon.security.rbac.evaluate import Scope

T = TypeVar("T")

READ_NAMED = Require("agent:read", "agent:id", param="agents_list", mode="each")
READ_ANY = Require("agent:read", "agent:id", mode="restrict")

STATUSES = ("active", "disconnected", "never_connected", "pending")


async def read_agents(ctx: Context, query: Callable[[Connection], T]) -> T:
    """The result of ``query`` on one consistent view of the registry, off the event loop."""

    def read() -> T:
        with ctx.node.agents.read() as connection:
            return query(connection)

    return await asyncio.to_thread(read)


def scope_of(grant: Grant) -> Scope:
    """The agents that ``grant`` permits."""
    return Scope(frozenset(grant.ids)) if grant.explicit else grant.scope


def scope_conditions(scope: Scope) -> list[Condition]:
    """The condition for ``scope``; none where everything is permitted."""
    return [] if scope.everything else [in_scope(scope)]


async def list_page(ctx: Context, query: Query, where: Sequence[Condition] = (), *, manager: bool = True) -> Outcome:
    """The page that ``query`` asks for of the agents that meet ``where`` and that the caller may read.

    ``manager`` False leaves out agent 000. Ids that the request names and that no agent has fail with 1701.
    """
    grant = ctx.grant("agent:id")
    scope, now = scope_of(grant), ctx.node.clock.now()
    conditions = [*scope_conditions(scope), *where]

    def read(connection: Connection) -> tuple[Page, list[str]]:
        row = manager_in_scope(ctx, connection, scope) if manager else None
        page = read_page(connection, query, now=now, where=conditions, manager=row)
        return page, unknown_ids(connection, grant.ids) if grant.explicit else []

    page, unknown = await read_agents(ctx, read)
    outcome = Outcome(items=list(page.items), total=page.total)
    if unknown:
        outcome.fail(SecmonError(1701), *unknown)
    return outcome


def manager_in_scope(ctx: Context, connection: Connection, scope: Scope) -> Subquery | None:
    """Agent 000, this node's manager, if it is in ``scope``."""
    if MANAGER_ID not in scope:
        return None
    created = number(connection, "created") or None
    return manager_row(ctx.node.name, host=socket.gethostname(), system=own_system(), created=created)


def summarize(connection: Connection, where: Sequence[Condition]) -> dict[str, dict[str, int]]:
    """Agents that meet ``where``, the manager aside: by connection, and by the state of their configuration."""
    connections, configurations = dict.fromkeys(STATUSES, 0), {"synced": 0, "not_synced": 0}
    for status, state, count in count_states(connection, where):
        connections[status if status in connections else "disconnected"] += count
        configurations["synced" if state == "synced" else "not_synced"] += count
    total = {"total": sum(connections.values())}
    return {"connection": connections | total, "configuration": configurations | total}
