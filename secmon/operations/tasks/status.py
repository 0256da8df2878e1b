"""``/tasks/status``: the state of tasks for agents (manager.md 14.3)."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import ColumnElement, select

from secmon.agents.tasks.schema import tasks
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.parameters import (
    Alphanumeric,
    Common,
    Limit,
    Offset,
    Q,
    SearchFor,
    Select,
    SortBy,
    text_format,
)
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Page, Query, Sort, sql_engine
from secmon.common.query.columns import Column, Kind
from secmon.operations.agents.parameters import AgentId
from secmon.operations.agents.upgrades import iso_time
from secmon.security.rbac.authorization import Require

FIELDS = Fields(
    engine="sql",
    select=(
        *("task_id", "agent_id", "node", "module", "command", "create_time", "last_update_time", "status"),
        "error_message",
    ),
    required=("task_id",),
    dates=("create_time", "last_update_time"),
)
BY_ID = Sort(("task_id",))
COLUMNS = {name: Column(tasks.c[name]) for name in FIELDS.select or ()} | {
    "task_id": Column(tasks.c.task_id, Kind.NUMBER),
    "agent_id": Column(tasks.c.agent_id, Kind.ID),
    "create_time": Column(tasks.c.create_time, Kind.DATE, render=iso_time),
    "last_update_time": Column(tasks.c.last_update_time, Kind.DATE, render=iso_time),
}

Number = Annotated[str, text_format("numbers", "[0-9]{1,18}")]
Text = str | UnsetType


class TaskItem(Struct):
    """A task; what it has not, or what was not selected, is left out."""

    task_id: int
    agent_id: Text = UNSET
    node: Text = UNSET
    module: Text = UNSET
    command: Text = UNSET
    create_time: Text = UNSET
    last_update_time: Text = UNSET
    status: Text = UNSET
    error_message: Text = UNSET


class TasksQuery(Common, frozen=True, kw_only=True):
    """Query parameters of GET /tasks/status."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    agents_list: list[AgentId] | None = None
    tasks_list: list[Number] | None = None
    command: str | None = None
    node: Alphanumeric | None = None
    module: Alphanumeric | None = None
    status: Alphanumeric | None = None


@operation(
    "GET", "/tasks/status", params=TasksQuery, place=Place.MASTER, item=TaskItem, require=(Require("task:status"),),
    messages=Messages(all="The tasks were read", none="No task was found"),
)  # fmt: skip
async def read_tasks(ctx: Context, params: TasksQuery) -> Outcome:
    """Tasks of agents, and how far they are."""
    query = read_query(params, FIELDS)
    page = await asyncio.to_thread(_read, ctx, query, _filters(params))
    return Outcome(items=list(page.items), total=page.total)


def _read(ctx: Context, query: Query, where: Sequence[ColumnElement[bool]]) -> Page:
    statements = sql_engine.apply(
        select(tasks).where(*where), query, COLUMNS, FIELDS,
        now=ctx.node.clock.now(), default_sort=BY_ID, tie=(tasks.c.task_id,),
    )  # fmt: skip
    with ctx.node.tasks.read() as connection:
        return sql_engine.fetch(connection, statements, COLUMNS)


def _filters(params: TasksQuery) -> list[ColumnElement[bool]]:
    """Parameters of texts ignore letter case: ``status`` arrives in lower case."""
    found: list[ColumnElement[bool]] = [
        sql_engine.equals(COLUMNS[name], [value])
        for name in ("command", "node", "module", "status")
        if (value := getattr(params, name)) is not None
    ]
    if params.agents_list is not None:
        found.append(tasks.c.agent_id.in_([int(one) for one in params.agents_list]))
    if params.tasks_list is not None:
        found.append(tasks.c.task_id.in_([int(one) for one in params.tasks_list]))
    return found
