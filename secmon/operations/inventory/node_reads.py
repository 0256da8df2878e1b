"""The internal operations by which a node answers for its agents: rows of one data set, and the age of the rows."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs, to_builtins
from sqlalchemy import Connection, and_, func, select

from secmon.agents.names import padded
from secmon.agents.registry.agent_fields import date_if_any
from secmon.cluster.catalogue import Operation
from secmon.cluster.executor import Context, read_query
from secmon.common.outcome import Outcome
from secmon.common.query import sql_engine
from secmon.common.query.shaping import Item
from secmon.common.query.sql_conditions import found_in
from secmon.inventory.schema import synchronizations
from secmon.operations.internal import INTERNAL
from secmon.operations.inventory.data_sets import AGENT_ID, DataSet


class OwnRows(Struct, frozen=True, kw_only=True):
    """Agents of the node asked, and which of their rows to return. The master has checked the page.

    ``filters``: values by field. ``share``: what the node contributes to the page of several nodes: its first ``limit``
    rows, with what the order compares.
    """

    agents: list[int]
    offset: int = 0
    limit: int = 500
    sort: str | None = None
    search: str | None = None
    select: list[str] | None = None
    q: str | None = None
    distinct: bool = False
    filters: dict[str, str] = {}
    share: bool = False


class Synchronization(Struct, frozen=True):
    """How old the rows are: the last comparison with the agent, and the last one that found them equal.

    Times are those of the agent's clock; null where there was none. ``complete``: nothing has been found missing since.
    """

    node: str | None = None
    last_attempt: str | None = None
    last_completion: str | None = None
    complete: bool = False


def read_name(data_set: DataSet) -> str:
    """The internal operation that reads ``data_set``."""
    return f"GET /internal/own-inventory/{data_set.name}"


NodeRead = Callable[[Context, OwnRows, DataSet], Outcome]
"""Reads rows of agents of this node. It blocks."""


def declare_node_read(data_set: DataSet, read_rows: NodeRead | None = None) -> None:
    """Add the internal operation for ``data_set`` to the catalogue.

    ``read_rows``: for data sets whose items are not rows of one statement.
    """

    async def read(ctx: Context, params: OwnRows) -> Outcome:
        return await asyncio.to_thread(read_rows or _read, ctx, params, data_set)

    path = read_name(data_set).removeprefix("GET ")
    INTERNAL.add(
        Operation(
            method="GET", path=path, summary=f"Rows of own agents: {data_set.name}.", params=OwnRows, function=read,
            open_to_all=True, item=dict[str, Any],
        )
    )  # fmt: skip


def _read(ctx: Context, params: OwnRows, data_set: DataSet) -> Outcome:
    query = replace(
        read_query(structs.replace(params, offset=0, limit=1), data_set.fields),
        offset=params.offset,
        limit=params.limit,
    )
    fields = data_set.fields
    if params.share:
        fields = replace(fields, select=query.select or fields.select)
    conditions = [data_set.of_agents(params.agents), *data_set.conditions(params.filters)]
    if query.search is not None:  # in the fields alone: neither in the agent's id, nor in the key
        conditions.append(found_in(query.search, data_set.columns.values()))
    statements = sql_engine.apply(
        data_set.source,
        replace(query, search=None, sort=data_set.order(query) if params.share else query.sort),
        data_set.all_columns,
        fields,
        now=ctx.node.clock.now(),
        restrict=and_(*conditions),
        default_sort=data_set.default_sort,
        tie=(data_set.key,),
        part=params.share,
    )
    with ctx.node.inventory.read() as connection:
        page = sql_engine.fetch(connection, statements, data_set.all_columns)
        if params.share:
            return Outcome(items=list(page.items), total=page.total)
        [agent] = params.agents
        extra = {}
        if data_set.components:
            age = _age(connection, agent, data_set.components, ctx.node.name)
            extra["synchronization"] = to_builtins(age)
    return Outcome(items=[_finished(item, data_set, agent) for item in page.items], total=page.total, extra=extra)


def _finished(item: Item, data_set: DataSet, agent: int) -> Item:
    """``item`` with the agent's id, also where ``distinct`` left it out, and with its lone members flat."""
    if data_set.shows_agent:
        item[AGENT_ID] = padded(agent)
    if data_set.nested is None:
        return item
    return dict(_flat(name, value, data_set.nested) for name, value in item.items())


def _flat(name: str, value: object, nested: Collection[str]) -> tuple[str, object]:
    if isinstance(value, dict) and len(value) == 1 and name not in nested:
        [(last, value)] = value.items()
        return f"{name}.{last}", value
    return name, value


def _age(connection: Connection, agent: int, components: Sequence[str], node: str) -> Synchronization:
    """Of several components the last attempt, and the completion that is furthest back."""
    table = synchronizations.c
    completed = and_(table.last_completion != 0, table.last_attempt <= table.last_completion)
    found = select(func.max(table.last_attempt), func.min(table.last_completion), func.min(completed)).where(
        table.agent_id == agent, table.component.in_(components)
    )
    attempt, completion, complete = connection.execute(found).one()
    return Synchronization(node, date_if_any(attempt or 0), date_if_any(completion or 0), bool(complete))
