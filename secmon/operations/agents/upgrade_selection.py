"""Selection of the agents of an upgrade request (agent-link.md 10.2, step 1)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import structs
from sqlalchemy import Connection, select

from secmon.agents.names import padded
from secmon.agents.registry.agent_fields import FIELDS, MANAGER_ID, Condition, is_agent_id
from secmon.agents.registry.entries import pick
from secmon.agents.registry.queries import read_ids
from secmon.agents.registry.schema import agents
from secmon.agents.upgrade_targets import Candidate
from secmon.cluster.executor import Context, read_query
from secmon.cluster.parameters import Common, Q
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.query.syntax import Node as QueryNode
from secmon.operations.agents.listing import read_agents
from secmon.operations.agents.parameters import AgentFields, AgentId, AgentIdOrAll, conditions
from secmon.security.rbac.authorization import Grant, Require

UPGRADE = Require("agent:upgrade", "agent:id", param="agents_list", mode="each")
UNREPORTED = frozenset({1701, 1703, 1707, 1731, 1813, 1819, 1820, 1821, 1822})
"""Codes of failures that are left out for agents that the request does not name."""


class Selection(AgentFields, frozen=True, kw_only=True):
    """The agents to upgrade. Named ones that do not meet all conditions fail."""

    agents_list: list[AgentIdOrAll]
    q: Q = None


class ResultsQuery(AgentFields, frozen=True, kw_only=True):
    """Query parameters of GET /agents/upgrade_result. Named agents that do not meet all conditions fail."""

    agents_list: list[AgentId] | None = None
    q: Q = None


class _Row(NamedTuple):
    agent: Candidate
    active: bool


async def select_agents(ctx: Context, params: Selection | ResultsQuery) -> tuple[list[Candidate], Outcome]:
    """The active agents of the request, by number; other agents that it names fail.

    1703: the manager; 1701: unknown; 1707: not active; 1731: the conditions are not met.
    """
    grant, now = ctx.grant("agent:id"), ctx.node.clock.now()
    q, where = read_query(params, FIELDS).q, conditions(params, now)

    def read(connection: Connection) -> tuple[list[_Row], Collection[int] | None]:
        matching = None if q is None and not where else _matching(connection, ctx, q, where)
        return _rows(connection, grant), matching

    rows, matching = await read_agents(ctx, read)
    outcome = Outcome()
    fit = [row.agent for row in rows if row.active and (matching is None or row.agent.id in matching)]
    chosen = {one.id for one in fit}
    if not grant.explicit:
        return fit, outcome
    known = {padded(row.agent.id) for row in rows}
    reasons = {
        1703: [one for one in grant.ids if one == MANAGER_ID],
        1701: [one for one in grant.ids if one != MANAGER_ID and one not in known],
        1707: [padded(row.agent.id) for row in rows if not row.active],
        1731: [padded(row.agent.id) for row in rows if row.active and row.agent.id not in chosen],
    }
    for code, ids in reasons.items():
        if ids:
            outcome.fail(SecmonError(code, _conditions_text(params) if code == 1731 else None), *ids)
    return fit, outcome


def _matching(connection: Connection, ctx: Context, q: QueryNode | None, where: Sequence[Condition]) -> Collection[int]:
    return set(read_ids(connection, now=ctx.node.clock.now(), q=q, where=where))


_COLUMNS = (*(agents.c[name] for name in Candidate._fields), agents.c.connection_status)


def _rows(connection: Connection, grant: Grant) -> list[_Row]:
    if grant.explicit:
        numbers = sorted(int(one) for one in grant.ids if is_agent_id(one) and one != MANAGER_ID)
        found = sorted(pick(connection, _COLUMNS, numbers), key=lambda row: int(row.id))
    else:
        everyone = connection.execute(select(*_COLUMNS).order_by(agents.c.id))
        found = [row for row in everyone if padded(row.id) in grant.scope]
    return [_Row(Candidate(*row[:-1]), row[-1] == "active") for row in found]


def _conditions_text(params: Selection | ResultsQuery) -> str:
    """The conditions of the request, as the client gave them."""
    given = {info.encode_name: getattr(params, info.name) for info in structs.fields(AgentFields)}
    own = {info.encode_name for info in structs.fields(Common)}
    texts = [f"{name}={value}" for name, value in given.items() if value is not None and name not in own]
    return "; ".join([*texts, *([f"q={params.q}"] if params.q else [])])


def without_hidden(outcome: Outcome, grant: Grant) -> Outcome:
    if not grant.explicit:
        outcome.failures = [failure for failure in outcome.failures if failure.code not in UNREPORTED]
    return outcome
