"""Commands to agents: restart, reconnect, active responses (agent-link.md 8.5, 8.6, 9)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import Select, select

from secmon.agents.link.answers import GETCONFIG_SINCE, configuration
from secmon.agents.link.responses import Response, read_commands, response_message, restart_message
from secmon.agents.names import padded
from secmon.agents.registry.entries import pick
from secmon.agents.registry.schema import agent_groups, agents
from secmon.agents.wire.version import compare
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, authorizer
from secmon.cluster.node import AgentLink
from secmon.cluster.parameters import Common, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Result
from secmon.operations.agents.listing import read_agents
from secmon.operations.agents.node_requests import NodeRequest, call_node, call_nodes, locate_agent
from secmon.operations.agents.parameters import STAYS_BELOW, AgentId
from secmon.operations.groups.parameters import READ_GROUP, GroupPath, require_group_exists
from secmon.operations.internal import INTERNAL
from secmon.operations.permissions import NodePath, on_node
from secmon.security.rbac.authorization import Require

RECONNECT = "#!-force_reconnect"

UNREPORTED = frozenset({1701, 1703, 1707})
"""Codes of failures that are left out for agents that the request does not name."""

MAX_CONCURRENT = 256
"""Agents that a node waits for at the same time."""
_TIME_SHARE = 0.8
"""Part of the remaining time that an agent may take to answer."""

RESTART = Messages(
    all="The restart was sent to the agents", some="The restart was not sent to some of the agents",
    none="The restart was sent to no agent",
)  # fmt: skip
RECONNECTION = Messages(
    all="The agents were told to reconnect", some="Some of the agents were not told to reconnect",
    none="No agent was told to reconnect",
)  # fmt: skip
RESPONSE = Messages(
    all="The active response was sent to the agents", some="The active response was not sent to some of the agents",
    none="The active response was sent to no agent",
)  # fmt: skip

CommandName = Annotated[
    str,
    text_format("active_response_command", STAYS_BELOW + r"!?[\w\-.\\/:]+"),
    Meta(description="A name of the table of active responses, or `!` and a program on the agents.", max_length=256),
]


class TargetAgents(Common, frozen=True, kw_only=True):
    """The target agents; without a list all that the caller may command."""

    agents_list: list[AgentId] | None = None


class TargetAgent(Common, frozen=True, kw_only=True):
    """The target agent."""

    agent_id: AgentId


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """What agents are to run."""

    command: CommandName
    arguments: list[str] = []
    alert: Annotated[dict[str, Any], Meta(description="The alert that the program is to react to.")] = {}


class RunCommand(TargetAgents, frozen=True, kw_only=True):
    """The command and its target agents."""

    body: Command


def _each(action: str) -> Require:
    return Require(action, "agent:id", param="agents_list", mode="each")


@operation(
    "PUT", "/agents/restart", params=TargetAgents, place=Place.AGENT, item=str, require=(_each("agent:restart"),),
    messages=RESTART,
)  # fmt: skip
async def restart_agents(ctx: Context, params: TargetAgents) -> Outcome:
    """Restart agents."""
    return await _command(ctx, RESTART_OWN)


@operation(
    "PUT", "/agents/reconnect", params=TargetAgents, place=Place.AGENT, item=str, require=(_each("agent:reconnect"),),
    messages=RECONNECTION,
)  # fmt: skip
async def reconnect_agents(ctx: Context, params: TargetAgents) -> Outcome:
    """Have agents connect again."""
    return await _command(ctx, RECONNECT_OWN)


async def _command(ctx: Context, operation: str) -> Outcome:
    grant = ctx.grant("agent:id")
    return await call_nodes(ctx, NodeRequest(operation), grant, hidden=() if grant.explicit else UNREPORTED)


@operation(
    "PUT", "/agents/{agent_id}/restart", params=TargetAgent, place=Place.AGENT, item=str, messages=RESTART,
    require=(Require("agent:restart", "agent:id", param="agent_id"),),
)  # fmt: skip
async def restart_agent(ctx: Context, params: TargetAgent) -> Result:
    """Restart an agent."""
    try:
        agent = await locate_agent(ctx, params.agent_id)
    except SecmonError as error:
        outcome = Outcome()
        outcome.fail(error)
        return outcome
    return await call_node(ctx, NodeRequest(RESTART_OWN), agent)


@operation(
    "PUT", "/agents/group/{group_id}/restart", params=GroupPath, place=Place.AGENT, item=str, messages=RESTART,
    require=(
        READ_GROUP, Require("agent:read", "agent:id", mode="restrict"),
        Require("agent:restart", "agent:id", mode="restrict"),
    ),
)  # fmt: skip
async def restart_group(ctx: Context, params: GroupPath) -> Outcome:
    """Restart the agents of a group."""
    await require_group_exists(ctx, params.group_id)
    members = await _ids(ctx, select(agent_groups.c.agent_id).where(agent_groups.c.name == params.group_id))
    readable = authorizer(ctx.node, ctx.call).check(Require("agent:read", "agent:id", mode="restrict"), members).ids
    return await _restart(ctx, readable)


@operation(
    "PUT", "/agents/node/{node_id}/restart", params=NodePath, place=Place.AGENT, item=str, messages=RESTART,
    require=(on_node("read"), Require("agent:restart", "agent:id", mode="restrict")), needs_cluster=True,
)  # fmt: skip
async def restart_agents_of_node(ctx: Context, params: NodePath) -> Outcome:
    """Restart the agents that are connected to a node."""
    membership = ctx.node.services.membership
    if membership is None:
        raise SecmonError(3013)
    if params.node_id not in {member.name for member in membership.members()}:
        outcome = Outcome()
        outcome.fail(SecmonError(1730), params.node_id)
        return outcome
    return await _restart(ctx, await _ids(ctx, select(agents.c.id).where(agents.c.node_name == params.node_id)))


async def _ids(ctx: Context, question: Select[Any]) -> list[str]:
    return await read_agents(ctx, lambda store: [padded(one) for one in store.execute(question).scalars()])


async def _restart(ctx: Context, ids: Sequence[str]) -> Outcome:
    """Restart those of ``ids`` that the caller may restart. Raises 4000 where that is none of them."""
    grant = authorizer(ctx.node, ctx.call).check(Require("agent:restart", "agent:id", mode="each"), ids)
    outcome = await call_nodes(ctx, NodeRequest(RESTART_OWN), grant, hidden=UNREPORTED)
    if grant.error is not None:
        outcome.fail(grant.error)
    return outcome


@operation(
    "PUT", "/active-response", params=RunCommand, place=Place.AGENT, item=str, messages=RESPONSE,
    require=(_each("active-response:command"),),
)  # fmt: skip
async def run_command(ctx: Context, params: RunCommand) -> Outcome:
    """Run an active response on agents."""
    grant = ctx.grant("agent:id")
    errand = NodeRequest(RESPOND_OWN, msgspec.to_builtins(params.body))
    return await call_nodes(ctx, errand, grant, hidden=() if grant.explicit else {1701, 1703})


# Internal operations, on the nodes of the agents


class OwnAgents(Struct, frozen=True, kw_only=True):
    """Numbers of agents that are connected to the node asked."""

    agents: list[int]


class OwnCommand(OwnAgents, frozen=True, kw_only=True):
    """The command for these agents."""

    command: str
    arguments: list[str] = []
    alert: dict[str, Any] = {}
    ask: bool = True
    """Whether each agent is asked first if it has active responses enabled, so that the answer can say so."""


RESTART_OWN = "PUT /internal/own-agents/restart"
RECONNECT_OWN = "PUT /internal/own-agents/reconnect"
RESPOND_OWN = "PUT /internal/own-agents/active-response"


def link_of(ctx: Context) -> AgentLink:
    """The link to this node's agents. Raises 1014 when it is not running."""
    link = ctx.node.services.agent_link
    if link is None:
        raise SecmonError(1014, "secmon-remoted")
    return link


def answer_seconds(ctx: Context) -> float | None:
    """Time limit for the answer of one agent, so that the other answers arrive in time; None: the limit of the link."""
    deadline = ctx.call.deadline
    return None if deadline is None else max(0.1, (deadline - ctx.node.clock.monotonic()) * _TIME_SHARE)


@operation(
    "PUT", "/internal/own-agents/restart", params=OwnAgents, open_to_all=True, catalogue=INTERNAL, messages=RESTART,
    item=str,
)  # fmt: skip
async def restart_own_agents(ctx: Context, params: OwnAgents) -> Outcome:
    """Restart agents of this node."""
    return await send_each(ctx, await _versions(ctx, params.agents), restart_message)


@operation(
    "PUT", "/internal/own-agents/reconnect", params=OwnAgents, open_to_all=True, catalogue=INTERNAL, item=str,
    messages=RECONNECTION,
)  # fmt: skip
async def reconnect_own_agents(ctx: Context, params: OwnAgents) -> Outcome:
    """Have agents of this node connect again. Agents older than v4.3.0 ignore the message."""
    return await send_each(ctx, dict.fromkeys(params.agents), lambda _: RECONNECT)


async def _versions(ctx: Context, numbers: Sequence[int]) -> dict[int, str | None]:
    """Versions of agents in this node's registry; None where it is unknown."""
    columns = (agents.c.id, agents.c.version)
    known = await read_agents(ctx, lambda store: dict(map(tuple, pick(store, columns, numbers))))
    return {number: known.get(number) for number in numbers}


async def send_each(ctx: Context, versions: Mapping[int, str | None], message: Callable[[str | None], str]) -> Outcome:
    """Send each agent the message for its version, without waiting for its effect."""
    texts = [(number, message(version)) for number, version in versions.items()]
    unsent = set(await link_of(ctx).send(texts))
    outcome = Outcome(items=[padded(number) for number in sorted(versions.keys() - unsent)])
    if unsent:
        outcome.fail(SecmonError(1707), *map(padded, sorted(unsent)))
    return outcome


@operation(
    "PUT", "/internal/own-agents/active-response", params=OwnCommand, open_to_all=True, catalogue=INTERNAL, item=str,
    messages=RESPONSE,
)  # fmt: skip
async def respond_on_own_agents(ctx: Context, params: OwnCommand) -> Outcome:
    """Run an active response on agents of this node."""
    outcome = Outcome()
    if not params.command.startswith("!"):
        commands = await asyncio.to_thread(read_commands, ctx.node.paths.shared)
        if params.command not in commands:
            outcome.fail(SecmonError(1652, params.command), *map(padded, params.agents))
            return outcome
    response = Response(command=params.command, arguments=params.arguments, alert=params.alert, node=ctx.node.name)
    turns = asyncio.Semaphore(MAX_CONCURRENT)

    async def respond(agent: int, version: str | None) -> None:
        try:
            async with turns:
                await _respond(ctx, agent, version, response, ask=params.ask)
            outcome.items.append(padded(agent))
        except SecmonError as error:
            outcome.fail(error, padded(agent))

    async with asyncio.TaskGroup() as group:
        for agent, version in (await _versions(ctx, params.agents)).items():
            group.create_task(respond(agent, version))
    return outcome


async def _respond(ctx: Context, agent: int, version: str | None, response: Response, *, ask: bool) -> None:
    """Send it to one agent. Raises 1015, 1116 to 1118, 1707, 1731, 1750."""
    if not version:
        raise SecmonError(1015)
    link = link_of(ctx)
    if ask and compare(version, GETCONFIG_SINCE) >= 0:
        answer = await link.request(agent, "com", b"getconfig active-response", timeout=answer_seconds(ctx))
        section = configuration(answer)
        if isinstance(section, dict) and _disabled(section.get("active-response")):
            raise SecmonError(1750)
    try:
        message = response_message(response, version)
    except ValueError as error:
        raise SecmonError(1731, str(error)) from None
    if await link.send([(agent, message)]):
        raise SecmonError(1707)


def _disabled(section: object) -> bool:
    return isinstance(section, dict) and section.get("disabled") == "yes"
