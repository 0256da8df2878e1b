"""Requests to the nodes of agents (place AGENT): the master looks up the agents, calls their nodes, and merges.

A node is called with an internal operation that takes the numbers of its agents as ``agents`` and answers with the ids
of the agents it has served. If a node does not answer, only its own agents fail (cluster.md 5.6).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs
from sqlalchemy import Connection, select

from secmon.agents.names import padded
from secmon.agents.registry.agent_fields import MANAGER_ID, is_agent_id
from secmon.agents.registry.entries import pick
from secmon.agents.registry.schema import agents
from secmon.cluster.call import parameters_of
from secmon.cluster.executor import Context
from secmon.cluster.node import NodeCalls
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Result, absorb
from secmon.operations.agents.listing import read_agents
from secmon.operations.internal import INTERNAL
from secmon.security.rbac.authorization import Grant

_COLUMNS = (agents.c.id, agents.c.node_name, agents.c.connection_status, agents.c.version)


class LocatedAgent(NamedTuple):
    """An agent, and the node that it is, or was last, connected to."""

    number: int
    node: str
    status: str
    version: str | None

    @property
    def id(self) -> str:
        return padded(self.number)


class NodeRequest(NamedTuple):
    """An internal operation, and its parameters besides ``agents``."""

    operation: str
    params: Mapping[str, Any] = {}


async def call_nodes(ctx: Context, errand: NodeRequest, grant: Grant, *, hidden: Collection[int] = ()) -> Outcome:
    """Run ``request`` on the nodes of the active agents that ``grant`` permits; the merged answers, ordered by id.

    The manager fails with 1703, unknown ids with 1701, agents that are not active with 1707. Failures with codes that
    are ``hidden`` are left out.
    """
    found = await find_agents(ctx, grant)
    outcome = _unknown_agents(grant, {one.id for one in found})
    if lost := [one.id for one in found if one.status != "active"]:
        outcome.fail(SecmonError(1707), *lost)
    for share in await call_shares(ctx, errand, [one for one in found if one.status == "active"]):
        outcome.items += share.items
        outcome.failures += share.failures
        outcome.node_errors |= share.node_errors
    outcome.items.sort(key=int)
    outcome.failures = [failure for failure in outcome.failures if failure.code not in hidden]
    return outcome


async def locate_agent(ctx: Context, agent: str, *, inactive: int = 1707, manager: int = 1703) -> LocatedAgent:
    """The one agent that the request names. Raises 1701, and the codes given, with its id."""
    if agent == MANAGER_ID:
        raise SecmonError(manager, ids=(agent,))
    found = await find_agent(ctx, agent)
    if found.status != "active":
        raise SecmonError(inactive, ids=(agent,))
    return found


async def find_agent(ctx: Context, agent: str) -> LocatedAgent:
    """The one agent that the request names, connected or not. Raises 1701 with its id."""
    found = await find_agents(ctx, Grant(kind="agent:id", explicit=True, ids=(agent,)))
    if not found:
        raise SecmonError(1701, ids=(agent,))
    return found[0]


async def find_agents(ctx: Context, grant: Grant) -> list[LocatedAgent]:
    """The agents that ``grant`` permits, ordered by number; the manager is none of them."""
    return await read_agents(ctx, lambda connection: _select(connection, grant))


async def call_node(ctx: Context, errand: NodeRequest, agent: LocatedAgent) -> Result:
    """The answer of the agent's node. Raises the error of the node, or the reason why it does not answer."""
    node = _node_of(ctx, agent)
    answer = (await _answers(ctx, errand, {node: [agent.number]}))[node]
    if isinstance(answer, SecmonError):
        raise SecmonError(answer.code, answer.extra, ids=(agent.id,), nodes=answer.nodes or {node: answer.message})
    return answer


def _unknown_agents(grant: Grant, known: Collection[str]) -> Outcome:
    """An outcome in which the manager and the unknown agents of the request fail."""
    outcome = Outcome()
    manager = MANAGER_ID in (grant.ids if grant.explicit else grant.scope)
    unknown = [one for one in grant.ids if one not in known and one != MANAGER_ID]
    if manager:
        outcome.fail(SecmonError(1703), MANAGER_ID)
    if unknown:
        outcome.fail(SecmonError(1701), *unknown)
    return outcome


async def call_shares(ctx: Context, errand: NodeRequest, located: Iterable[LocatedAgent]) -> list[Outcome]:
    """The answers of the nodes, each for its agents; those of a node that does not answer fail."""
    shares: dict[str, list[int]] = {}
    for one in located:
        shares.setdefault(_node_of(ctx, one), []).append(one.number)
    if not shares:
        return []
    answers = await _answers(ctx, errand, shares)
    return [_share(answer, node, shares[node]) for node, answer in answers.items()]


async def _answers(
    ctx: Context, errand: NodeRequest, shares: Mapping[str, Sequence[int]]
) -> Mapping[str, Result | SecmonError]:
    operation = INTERNAL[errand.operation]
    params = {
        node: parameters_of(operation, {**errand.params, "agents": numbers}, ctx.node.name)
        for node, numbers in shares.items()
    }
    return await _nodes(ctx).call_nodes(structs.replace(ctx.call, operation=operation), params)


def _select(connection: Connection, grant: Grant) -> list[LocatedAgent]:
    if grant.explicit:
        numbers = sorted(int(one) for one in grant.ids if is_agent_id(one) and one != MANAGER_ID)
        return sorted(LocatedAgent(*row) for row in pick(connection, _COLUMNS, numbers))
    rows = connection.execute(select(*_COLUMNS).order_by(agents.c.id))
    return [one for one in (LocatedAgent(*row) for row in rows) if one.id in grant.scope]


def _node_of(ctx: Context, agent: LocatedAgent) -> str:
    """The node of the agent. Without a cluster it is this one, also when its name has changed since."""
    return agent.node if ctx.node.clustered else ctx.node.name


def _nodes(ctx: Context) -> NodeCalls:
    nodes = ctx.node.services.nodes
    if nodes is None:
        raise SecmonError(3012)
    return nodes


def _share(answer: Result | SecmonError, node: str, numbers: Sequence[int]) -> Outcome:
    """The answer of a node; if it failed, its agents fail with its error."""
    if isinstance(answer, Outcome):
        return answer
    error = answer if isinstance(answer, SecmonError) else SecmonError(3036)
    ids = tuple(padded(number) for number in numbers)
    return absorb(SecmonError(error.code, error.extra, ids=ids, nodes=error.nodes), node)
