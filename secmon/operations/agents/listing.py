"""Reading agents from the registry: permissions as conditions, pages, summaries."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Subquery

from secmon.agents.registry.agent_fields import FIELDS, MANAGER_ID, Condition, in_scope, manager_row, own_system
from secmon.agents.registry.queries import count_states, read_rows, unknown_ids
from secmon.agents.registry.store import number
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.query import Query
from secmon.common.query.syntax import clauses
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


async def list_page(
    ctx: Context, query: Query, where: Sequence[Condition] = (), *, manager: bool = True, ages: bool = False
) -> Outcome:
    """The page that ``query`` asks for of the agents that meet ``where`` and that the caller may read.

    ``manager`` False leaves out agent 000. ``ages``: what meets ``where`` changes as time goes by. Ids that the request
    names and that no agent has fail with 1701.
    """
    grant = ctx.grant("agent:id")
    scope, now = scope_of(grant), ctx.node.clock.now()
    conditions = [*scope_conditions(scope), *where]

    def read() -> Outcome:
        with ctx.node.agents.read() as connection:
            row = manager_in_scope(ctx, connection, scope) if manager else None
            rows = read_rows(connection, query, now=now, where=conditions, manager=row)
            outcome = Outcome(total=rows.total)
            if ctx.call.text:
                outcome.text = rows.text()
            else:
                outcome.items = rows.items()
            if grant.explicit and (unknown := unknown_ids(connection, grant.ids)):
                outcome.fail(SecmonError(1701), *unknown)
            return outcome

    timeless = not ages and (query.q is None or all(clause.field not in FIELDS.dates for clause in clauses(query.q)))
    version = (ctx.node.agents.version(), socket.gethostname()) if timeless else None
    return await ctx.remembered(version, read)


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
