"""Active configuration and statistics of an agent, from the agent or a daemon of its node (manager.md 7 and 11)."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from secmon.agents.link.answers import GETCONFIG_SINCE, GETSTATE_SINCE, configuration, state
from secmon.agents.registry.agent_fields import MANAGER_ID, iso_offset
from secmon.agents.wire.version import compare
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain, Result
from secmon.operations.agents.commands import OwnAgents, answer_seconds, link_of
from secmon.operations.agents.group_assignments import READ_AGENT, AgentPath
from secmon.operations.agents.node_requests import LocatedAgent, NodeRequest, call_node, locate_agent
from secmon.operations.internal import INTERNAL
from secmon.operations.nodes.components import Component, Configuration, check_pair, in_force

STATISTICS = Messages(
    all="The statistics of the agent were read", some="Some statistics of the agent could not be read",
    none="No statistics of the agent were read",
)  # fmt: skip


class ComponentConfiguration(AgentPath, frozen=True, kw_only=True):
    """Path of GET /agents/{agent_id}/config/{component}/{configuration}."""

    component: Component
    configuration: Configuration


class ComponentStatistics(AgentPath, frozen=True, kw_only=True):
    """Path of GET /agents/{agent_id}/stats/{component}."""

    component: Literal["logcollector", "agent"]


class DaemonStatistics(AgentPath, frozen=True, kw_only=True):
    """Parameters of GET /agents/{agent_id}/daemons/stats."""

    daemons_list: Annotated[
        list[Literal["secmon-analysisd", "secmon-remoted", "wazuh-analysisd", "wazuh-remoted"]] | None,
        Meta(description="Both without a list."),
    ] = None


@operation(
    "GET", "/agents/{agent_id}/config/{component}/{configuration}", params=ComponentConfiguration, place=Place.AGENT,
    data=dict[str, Any], require=(READ_AGENT,),
)  # fmt: skip
async def read_configuration(ctx: Context, params: ComponentConfiguration) -> Result:
    """The configuration that is in force in a component of an agent."""
    component, name = params.component, params.configuration
    check_pair(component, name)
    if params.agent_id == MANAGER_ID:
        return Plain(data=await in_force(ctx, component, name))
    agent = await locate_agent(ctx, params.agent_id, inactive=1740)
    _require_version(agent, GETCONFIG_SINCE)
    return await call_node(
        ctx, NodeRequest(OWN_CONFIGURATION, {"component": component, "text": f"getconfig {name}"}), agent
    )


@operation(
    "GET", "/agents/{agent_id}/stats/{component}", params=ComponentStatistics, place=Place.AGENT, item=dict[str, Any],
    require=(READ_AGENT,), messages=STATISTICS,
)  # fmt: skip
async def read_statistics(ctx: Context, params: ComponentStatistics) -> Outcome:
    """What a component of an agent has counted; of the manager itself, its log files."""
    outcome = Outcome()
    try:
        if params.agent_id == MANAGER_ID:
            return Outcome(items=[await _manager_statistics(ctx, params.component)])
        agent = await locate_agent(ctx, params.agent_id)
        if not agent.version:
            raise SecmonError(1015)
        _require_version(agent, GETSTATE_SINCE)
        answer = await call_node(
            ctx, NodeRequest(OWN_STATE, {"component": params.component, "text": "getstate"}), agent
        )
    except SecmonError as error:
        if error.nodes and error.code not in _AGENT_FAILURES:
            raise
        outcome.fail(SecmonError(error.code, error.extra), params.agent_id)
        return outcome
    if isinstance(answer, Plain):
        outcome.items.append(_DATED[params.component](answer.data))
    return outcome


@operation(
    "GET", "/agents/{agent_id}/daemons/stats", params=DaemonStatistics, place=Place.AGENT, item=dict[str, Any],
    require=(READ_AGENT,), messages=STATISTICS,
)  # fmt: skip
async def read_counters(ctx: Context, params: DaemonStatistics) -> Outcome:
    """What the daemons of an agent's node have counted of it."""
    wanted = [name.replace("wazuh-", "secmon-") for name in params.daemons_list or ("secmon-remoted", *_ENGINE)]
    outcome = Outcome()
    try:
        agent = await locate_agent(ctx, params.agent_id)
    except SecmonError as error:
        outcome.fail(error)
        return outcome
    for daemon in dict.fromkeys(wanted):
        try:
            answer = await call_node(ctx, NodeRequest(OWN_COUNTERS, {"daemon": daemon}), agent)
        except SecmonError as error:
            if error.code not in (1013, 1014, 1121):
                raise
            outcome.fail(SecmonError(error.code, error.extra), daemon)
            continue
        if isinstance(answer, Plain):
            outcome.items.append(answer.data)
    return outcome


_ENGINE = ("secmon-analysisd",)
_AGENT_FAILURES = frozenset({1015, 1117, 1118, 1310, 1701, 1703, 1707, 1735})
"""Codes of failures of the agent itself, not of its node."""


def _require_version(agent: LocatedAgent, version: str) -> None:
    if compare(agent.version, version) < 0:
        raise SecmonError(1735, f"it must be {version} or later")


def _dates(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """``YYYY-MM-DD HH:MM:SS`` in the date format of the API. The agent sends no time zone: the digits are kept."""
    shown = dict(data)
    for name in names:
        if isinstance(text := shown.get(name), str):
            try:
                shown[name] = iso_z(datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC))
            except ValueError:  # empty before the first one
                continue
    return shown


async def _manager_statistics(ctx: Context, component: str) -> dict[str, Any]:
    """What the analysis has read of the manager's own log files.

    Raises 1310 for other components, 1121, 1013, 1014.
    """
    analysis = ctx.node.services.analysis
    if component != "logcollector":
        raise SecmonError(1310, component)
    if analysis is None:
        raise SecmonError(1121, component)
    counted = await analysis.local_files()
    return {
        name: {**span, "start": _moment(span["start"]), "end": _moment(span["end"])} for name, span in counted.items()
    }


def _moment(seconds: float) -> str:
    return iso_z(datetime.fromtimestamp(int(seconds), UTC))


def _agent_statistics(data: Mapping[str, Any]) -> dict[str, Any]:
    return _dates(data, "last_keepalive", "last_ack")


def _logcollector_statistics(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _dates(span, "start", "end") if isinstance(span, dict) else span for name, span in data.items()}


_DATED: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "agent": _agent_statistics,
    "logcollector": _logcollector_statistics,
}


# Internal operations, on the node of the agent

OWN_CONFIGURATION = "GET /internal/own-agents/configuration"
OWN_STATE = "GET /internal/own-agents/state"
OWN_COUNTERS = "GET /internal/own-agents/counters"


class OwnComponent(OwnAgents, frozen=True, kw_only=True):
    """The agent, its component, and the text for it."""

    component: str
    text: str


class OwnCounters(OwnAgents, frozen=True, kw_only=True):
    """The agent, and the daemon that counts."""

    daemon: str


@operation(
    "GET", "/internal/own-agents/configuration", params=OwnComponent, open_to_all=True, catalogue=INTERNAL,
    data=dict[str, Any],
)  # fmt: skip
async def read_own_configuration(ctx: Context, params: OwnComponent) -> Plain:
    """Ask a component of an agent of this node for a configuration."""
    return Plain(data=configuration(await _request(ctx, params)))


@operation(
    "GET", "/internal/own-agents/state", params=OwnComponent, open_to_all=True, catalogue=INTERNAL,
    data=dict[str, Any],
)  # fmt: skip
async def read_own_state(ctx: Context, params: OwnComponent) -> Plain:
    """Ask a component of an agent of this node for its statistics."""
    return Plain(data=state(await _request(ctx, params)))


async def _request(ctx: Context, params: OwnComponent) -> bytes:
    seconds = answer_seconds(ctx)
    return await link_of(ctx).request(params.agents[0], params.component, params.text.encode(), timeout=seconds)


@operation(
    "GET", "/internal/own-agents/counters", params=OwnCounters, open_to_all=True, catalogue=INTERNAL, exempt=True,
    data=dict[str, Any],
)  # fmt: skip
async def read_own_counters(ctx: Context, params: OwnCounters) -> Plain:
    """What a daemon of this node has counted of its agents."""
    counted = await _daemon_statistics(ctx, params)
    agents = [{**one, "uptime": iso_offset(one["uptime"])} for one in counted["agents"]]
    return Plain(data={"timestamp": iso_offset(counted["timestamp"]), "name": counted["name"], "agents": agents})


async def _daemon_statistics(ctx: Context, params: OwnCounters) -> Mapping[str, Any]:
    """Raises 1013, 1014, 1121 when the daemon cannot be asked."""
    if params.daemon == "secmon-remoted":
        return await link_of(ctx).statistics(params.agents)
    if ctx.node.services.analysis is None:
        raise SecmonError(1121, params.daemon)
    return await ctx.node.services.analysis.statistics(params.agents)
