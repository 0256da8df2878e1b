"""``/manager/logs`` and its twin ``/cluster/{node_id}/logs`` (manager.md 12)."""

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, Common, Listing, Names
from secmon.common.logfile.reader import read_logs, summary
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Sort
from secmon.operations.permissions import NodePath, on_manager, on_node

Level = Literal["critical", "debug", "debug2", "error", "info", "warning"]


class LogEntry(Struct):
    """One message of a daemon; several lines where it had several."""

    timestamp: str
    tag: str
    level: Level
    description: str


class _Filter(Listing, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500, description="Most entries to return.")] = 500
    tag: Annotated[Alphanumeric | None, Meta(description="Only this daemon, or daemon:module.")] = None
    level: Annotated[Level | None, Meta(description="Only this level.")] = None


class LogsQuery(_Filter, frozen=True, kw_only=True):
    """Which entries."""


class NodeLogsQuery(_Filter, frozen=True, kw_only=True):
    """Which entries of which node."""

    node_id: Names


LOG_FIELDS = Fields(
    engine="list",
    select=("timestamp", "tag", "level", "description"),
    sort=("timestamp", "tag", "level", "description"),
)
NEWEST_FIRST = Sort(("timestamp",), descending=True)
LOGS = Messages(all="The logs were read", none="No log entry was found")
SUMMARY = Messages(all="The logs were summed up", none="No log entry was found")


@operation(
    "GET", "/manager/logs", params=LogsQuery, require=(on_manager("read"),), messages=LOGS, item=LogEntry,
    fields=LOG_FIELDS, default_sort=NEWEST_FIRST, exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/logs", params=NodeLogsQuery, place=Place.NODE, node_param="node_id",
    require=(on_node("read"),), messages=LOGS, item=LogEntry, fields=LOG_FIELDS, default_sort=NEWEST_FIRST,
    needs_cluster=True, exempt=True,
)  # fmt: skip
async def logs(ctx: Context, params: _Filter) -> Outcome:
    """Messages of the daemons, rotated files included, newest first."""
    return Outcome(items=await asyncio.to_thread(read_logs, ctx.node.paths, tag=params.tag, level=params.level))


@operation(
    "GET", "/manager/logs/summary", params=Common, require=(on_manager("read"),), messages=SUMMARY,
    item=dict[str, dict[str, int]], exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/logs/summary", params=NodePath, place=Place.NODE, node_param="node_id",
    require=(on_node("read"),), messages=SUMMARY, item=dict[str, dict[str, int]], needs_cluster=True, exempt=True,
)  # fmt: skip
async def logs_summary(ctx: Context, params: Common) -> Outcome:
    """How many messages of each level, by daemon."""
    items: list[dict[str, Any]] = await asyncio.to_thread(summary, ctx.node.paths)
    return Outcome(items=items)
