"""Statistics of a node: ``/manager/stats``, ``/manager/daemons/stats`` and their twins (manager.md 9 and 10)."""

import asyncio
from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.agents.registry.agent_fields import iso_offset
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Names, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.agents.commands import answer_seconds, link_of
from secmon.operations.nodes.statistics_files import hourly, link_state, state, totals, weekly
from secmon.operations.nodes.store_statistics import store_metrics
from secmon.operations.permissions import NodePath, on_manager, on_node

Day = Annotated[str, text_format("date", r"[0-9]{4}-(1[0-2]|0[1-9])-(3[01]|0[1-9]|[12][0-9])")]
DaemonName = Literal[
    "secmon-analysisd", "secmon-remoted", "secmon-db", "wazuh-analysisd", "wazuh-remoted", "wazuh-db"
]  # fmt: skip
EVERY_DAEMON = ("secmon-remoted", "secmon-analysisd", "secmon-db")
"""Those that an answer has unless daemons are named."""

STATISTICS = Messages(
    all="The statistics were read", some="Some statistics could not be read", none="No statistics were read"
)


class RuleTimes(Struct):
    """How often a rule was the last one to match."""

    sigid: int
    level: int
    times: int


class HourTotals(Struct):
    """What happened in an hour."""

    hour: int
    alerts: list[RuleTimes]
    totalAlerts: int
    events: int
    syscheck: int
    firewall: int


class HourlyAverages(Struct):
    """Events that are usual at each hour of a day."""

    averages: list[int]
    interactions: int


class DayAverages(Struct):
    """Events that are usual at each hour of a day of the week."""

    hours: list[int]
    interactions: int


class DaemonCounters(Struct):
    """What a daemon has counted since it started."""

    uptime: str
    timestamp: str
    name: str
    metrics: dict[str, Any]


class StatsQuery(Common, frozen=True, kw_only=True):
    """Which day."""

    date: Annotated[Day | None, Meta(description="The day, in local time; today without one.")] = None


class NodeStatsQuery(StatsQuery, frozen=True, kw_only=True):
    """Which day of which node."""

    node_id: Names


class DaemonsQuery(Common, frozen=True, kw_only=True):
    """Which daemons."""

    daemons_list: Annotated[list[DaemonName] | None, Meta(description="All without a list.")] = None


class NodeDaemonsQuery(DaemonsQuery, frozen=True, kw_only=True):
    """Which daemons of which node."""

    node_id: Names


READ = (on_manager("read"),)
READ_NODE = (on_node("read"),)


@operation("GET", "/manager/stats", params=StatsQuery, require=READ, messages=STATISTICS, item=HourTotals)
@operation(
    "GET", "/cluster/{node_id}/stats", params=NodeStatsQuery, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=HourTotals, needs_cluster=True,
)  # fmt: skip
async def read_totals(ctx: Context, params: StatsQuery) -> Outcome:
    """Alerts and events of a day, by hour."""
    node = ctx.node
    try:
        day = node.clock.now().astimezone().date() if params.date is None else date.fromisoformat(params.date)
    except ValueError:  # of the form, but no day of any calendar
        raise SecmonError(1308, params.date) from None
    return Outcome(items=await asyncio.to_thread(totals, node.paths, day))


@operation("GET", "/manager/stats/hourly", params=Common, require=READ, messages=STATISTICS, item=HourlyAverages)
@operation(
    "GET", "/cluster/{node_id}/stats/hourly", params=NodePath, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=HourlyAverages, needs_cluster=True,
)  # fmt: skip
async def read_hourly(ctx: Context, params: Common) -> Outcome:
    """Events that are usual at each hour."""
    return Outcome(items=[await asyncio.to_thread(hourly, ctx.node.paths)])


@operation(
    "GET", "/manager/stats/weekly", params=Common, require=READ, messages=STATISTICS, item=dict[str, DayAverages]
)
@operation(
    "GET", "/cluster/{node_id}/stats/weekly", params=NodePath, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=dict[str, DayAverages], needs_cluster=True,
)  # fmt: skip
async def read_weekly(ctx: Context, params: Common) -> Outcome:
    """Events that are usual at each hour of the days of a week."""
    return Outcome(items=await asyncio.to_thread(weekly, ctx.node.paths))


@operation(
    "GET", "/manager/stats/analysisd", params=Common, require=READ, messages=STATISTICS, item=dict[str, float],
    deprecated="4.4",
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/stats/analysisd", params=NodePath, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=dict[str, float], needs_cluster=True, deprecated="4.4",
)  # fmt: skip
async def read_engine_state(ctx: Context, params: Common) -> Outcome:
    """Counters of the analysis engine in their older form."""
    return Outcome(items=[await asyncio.to_thread(state, ctx.node.paths, "secmon-analysisd")])


@operation(
    "GET", "/manager/stats/remoted", params=Common, require=READ, messages=STATISTICS, item=dict[str, float],
    deprecated="4.4",
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/stats/remoted", params=NodePath, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=dict[str, float], needs_cluster=True, deprecated="4.4",
)  # fmt: skip
async def read_link_state(ctx: Context, params: Common) -> Outcome:
    """Counters of the agent link in their older form."""
    try:
        counted = await link_of(ctx).statistics()
    except SecmonError as error:
        raise SecmonError(1308, error.extra) from None
    return Outcome(items=[link_state(counted)])


@operation("GET", "/manager/daemons/stats", params=DaemonsQuery, require=READ, messages=STATISTICS, item=DaemonCounters)
@operation(
    "GET", "/cluster/{node_id}/daemons/stats", params=NodeDaemonsQuery, place=Place.NODE, node_param="node_id",
    require=READ_NODE, messages=STATISTICS, item=DaemonCounters, needs_cluster=True,
)  # fmt: skip
async def read_counters(ctx: Context, params: DaemonsQuery) -> Outcome:
    """Counters of the daemons since they started."""
    wanted = [name.replace("wazuh-", "secmon-") for name in params.daemons_list or EVERY_DAEMON]
    daemons, outcome = list(dict.fromkeys(wanted)), Outcome()
    for daemon, found in zip(
        daemons, await asyncio.gather(*(_counters_or_error(ctx, one) for one in daemons)), strict=True
    ):
        if isinstance(found, SecmonError):
            outcome.fail(SecmonError(found.code, found.extra), daemon)
        else:
            outcome.items.append(found)
    return outcome


async def _counters_or_error(ctx: Context, daemon: str) -> dict[str, Any] | SecmonError:
    """The counters of a daemon, or its error. One that hangs does not cost the others their answers."""
    try:
        async with asyncio.timeout(answer_seconds(ctx)):
            return await _counters(ctx, daemon)
    except TimeoutError:
        return SecmonError(1014, daemon)
    except SecmonError as error:
        return error


async def _counters(ctx: Context, daemon: str) -> dict[str, Any]:
    """Raises 1121, 1013, 1014."""
    if daemon == "secmon-remoted":
        counted = await link_of(ctx).statistics()
    elif daemon == "secmon-analysisd" and ctx.node.services.analysis is not None:
        counted = await ctx.node.services.analysis.statistics()
    elif daemon == "secmon-db":
        found = await ctx.node.services.control.counters(daemon)
        now = int(ctx.node.clock.now().timestamp())
        counted = {"uptime": found["inventory.started"], "timestamp": now, "metrics": store_metrics(found)}
    else:
        raise SecmonError(1121, daemon)
    times = {name: iso_offset(counted[name]) for name in ("uptime", "timestamp")}
    return {**times, "name": daemon, "metrics": counted["metrics"]}
