"""Queries on agents: pages, distinct values, counts (conventions.md 5).

All of them take conditions. If the manager's row is given it counts as agent ``000``: it is inserted at its position of
the page, so that the database reads one table and can use its indexes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, Subquery, and_, case, false, func, or_, select

from secmon.agents.registry.agent_fields import (
    BY_ID,
    FIELDS,
    MANAGER_ID,
    Columns,
    Condition,
    agents_and_manager,
    columns_of,
    in_scope,
    is_agent_id,
)
from secmon.agents.registry.schema import agent_groups, agents
from secmon.common.query import Page, Query, Sort, sql_engine
from secmon.common.query.columns import Column, nest
from secmon.common.query.sql_engine import Rows
from secmon.common.query.syntax import Node
from secmon.security.rbac.evaluate import Scope

COUNT = "count"
MISSING = "unknown"
"""The value for agents without one in :func:`count_combinations`."""

_COLUMNS = columns_of(agents)


def read_page(
    connection: Connection,
    query: Query,
    *,
    now: datetime,
    where: Sequence[Condition] = (),
    manager: Subquery | None = None,
) -> Page:
    """The page of ``query``, sorted by id unless it says otherwise. Equal sort values are in the order of ids."""
    found = read_rows(connection, query, now=now, where=where, manager=manager)
    return Page(found.items(), found.total)


def read_rows(
    connection: Connection,
    query: Query,
    *,
    now: datetime,
    where: Sequence[Condition] = (),
    manager: Subquery | None = None,
) -> Rows:
    """As :func:`read_page`, for those who want no items but their text."""
    if query.distinct:
        return _fetch(connection, query, agents if manager is None else agents_and_manager(manager), now, where)
    if manager is None:
        return _fetch(connection, query, agents, now, where)
    first = _fetch(connection, replace(query, offset=0, limit=1), manager, now, where, total=1).rows
    if not first:  # it does not match
        return _fetch(connection, query, agents, now, where)
    offset, limit = query.offset, query.limit
    total, place = (None, 0) if _by_id(query) else _place(connection, query, manager, now, where)
    if not offset <= place < offset + limit:
        rest = _fetch(connection, replace(query, offset=offset - (place < offset)), agents, now, where, total)
        return rest._replace(total=rest.total + 1)
    rest = _fetch(connection, replace(query, limit=limit - 1), agents, now, where, total)
    rows = [*rest.rows[: place - offset], *first, *rest.rows[place - offset :]]
    return rest._replace(rows=rows, total=rest.total + 1)


def read_ids(
    connection: Connection, *, now: datetime, q: Node | None = None, where: Sequence[Condition] = ()
) -> list[int]:
    """The ids, in their order, of the agents that ``q`` and ``where`` describe; never the manager's."""
    conditions = [*sql_engine.where(Query(q=q), _COLUMNS, now), *(one(_COLUMNS) for one in where)]
    return list(connection.execute(select(agents.c.id).where(*conditions).order_by(agents.c.id)).scalars())


def unknown_ids(connection: Connection, ids: Iterable[str]) -> list[str]:
    """The ``ids``, in the form of the API, that belong to no agent; ``000`` is the manager."""
    wanted = list(dict.fromkeys(ids))
    asked = in_scope(Scope(frozenset(wanted)))(_COLUMNS)
    known = set(connection.execute(select(agents.c.id).where(asked)).scalars())
    return [one for one in wanted if one != MANAGER_ID and not (is_agent_id(one) and int(one) in known)]


def count_combinations(
    connection: Connection,
    query: Query,
    fields: Sequence[str],
    *,
    now: datetime,
    where: Sequence[Condition] = (),
    manager: Subquery | None = None,
) -> Page:
    """Each combination of values of ``fields`` that occurs, and its ``count``; the total is that of combinations.

    ``query`` may sort by ``count`` too. Combinations of equal sort values come in the order of their lowest ids.
    """
    source = agents if manager is None else agents_and_manager(manager)
    columns = columns_of(source)
    conditions = [*sql_engine.where(query, columns, now), *(one(columns) for one in where)]
    grouped = [_grouping(columns[name]) for name in fields]
    shown = [one.label(name) for name, one in zip(fields, grouped, strict=True)]
    base = select(*shown, func.count().label(COUNT)).select_from(source).where(*conditions).group_by(*grouped)
    page = base.order_by(*_group_order(query.sort or Sort(()), columns), func.min(columns["id"].expression))
    found = connection.execute(page.offset(query.offset).limit(query.limit))
    items = [_group(dict(zip(found.keys(), row, strict=True)), fields, columns) for row in found]
    if len(items) < query.limit and (items or query.offset == 0):
        return Page(items, query.offset + len(items))
    return Page(items, connection.execute(select(func.count()).select_from(base.subquery())).scalar_one())


def read_platforms(connection: Connection, where: Sequence[Condition] = ()) -> list[str]:
    """The platforms that occur, in the order of their bytes."""
    platform = agents.c.os_platform
    statement = select(platform).distinct().where(platform != "", *(one(_COLUMNS) for one in where))
    return list(connection.execute(statement.order_by(platform)).scalars())


def count_platforms(connection: Connection, where: Sequence[Condition] = ()) -> dict[str, int]:
    """How many agents run on each platform, in the order of the platforms' bytes."""
    platform = agents.c.os_platform
    statement = select(platform, func.count()).where(platform != "", *(one(_COLUMNS) for one in where))
    return dict(map(tuple, connection.execute(statement.group_by(platform).order_by(platform))))


def count_groups(connection: Connection, where: Sequence[Condition] = ()) -> dict[str, int]:
    """How many agents are in each group that has any, in the order of the groups' bytes."""
    group = agent_groups.c.name
    members = select(group, func.count()).join(agents, agents.c.id == agent_groups.c.agent_id)
    statement = members.where(*(one(_COLUMNS) for one in where)).group_by(group).order_by(group)
    return dict(map(tuple, connection.execute(statement)))


def count_states(connection: Connection, where: Sequence[Condition] = ()) -> list[tuple[str, str, int]]:
    """How many agents have each pair of connection status and state of their group configuration."""
    pair = (_grouping(_COLUMNS["status"]), agents.c.group_config_status)
    statement = select(*pair, func.count()).where(*(one(_COLUMNS) for one in where)).group_by(*pair)
    return [(status, synced, number) for status, synced, number in connection.execute(statement)]


def _fetch(
    connection: Connection,
    query: Query,
    source: FromClause,
    now: datetime,
    where: Sequence[Condition],
    total: int | None = None,
) -> Rows:
    columns = columns_of(source)
    statement, tie = _listing(source)
    restrict = and_(*(one(columns) for one in where)) if where else None
    statements = sql_engine.apply(
        statement, query, columns, FIELDS, now=now, restrict=restrict, default_sort=BY_ID, tie=(tie,)
    )
    return sql_engine.fetch_rows(connection, statements, columns, total=total)


@lru_cache(maxsize=8)
def _listing(source: FromClause) -> tuple[Select[Any], ColumnElement[int]]:
    """All rows of ``source``, and the order of rows with equal sort values."""
    return select(source), tie(columns_of(source))


def tie(columns: Columns) -> ColumnElement[int]:
    """The id, to order rows of equal sort values.

    An expression for the reason that :func:`columns_of` gives: sorted by the bare id any index seems useful.
    """
    return columns["id"].expression + 0


def _by_id(query: Query) -> bool:
    """Whether the manager comes first: its id is the lowest."""
    return query.sort is None or query.sort == BY_ID


def _place(
    connection: Connection, query: Query, manager: Subquery, now: datetime, where: Sequence[Condition]
) -> tuple[int, int]:
    """The number of matching agents without the manager, and the number of those that sort before it."""
    sort = query.sort or BY_ID
    values = connection.execute(select(*sql_engine.sort_values(sort, columns_of(manager)))).one()
    conditions = [*sql_engine.where(query, _COLUMNS, now), *(one(_COLUMNS) for one in where)]
    earlier = _before(sql_engine.sort_values(sort, _COLUMNS), values, descending=sort.descending)
    counted = select(func.count(), func.sum(case((earlier, 1), else_=0)))
    total, before = connection.execute(counted.select_from(agents).where(*conditions)).one()
    return total, before or 0


def _before(
    expressions: Sequence[ColumnElement[Any]], values: Sequence[Any], *, descending: bool
) -> ColumnElement[bool]:
    """Rows that sort before ``values``: nulls first ascending, last descending, as ``sql_engine.apply`` orders.

    Equal rows sort after: their ids are higher.
    """
    ways: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for expression, value in zip(expressions, values, strict=True):
        if value is None:
            ahead: ColumnElement[bool] = expression.is_not(None) if descending else false()
        else:
            ahead = expression > value if descending else or_(expression.is_(None), expression < value)
        ways.append(and_(*equal, ahead))
        equal.append(expression.is_not_distinct_from(value))
    return or_(*ways)


def _group_order(sort: Sort, columns: Columns) -> list[ColumnElement[Any]]:
    """Groups by their number of agents or by their first value: of a field grouped by, the one value they have."""
    first = func.max if sort.descending else func.min
    order: list[ColumnElement[Any]] = []
    for name in sort.fields:
        if name == COUNT:  # no column
            order.append(func.count())
        else:
            order += [first(value) for value in sql_engine.sort_values(Sort((name,)), columns)]
    return [one.desc().nulls_last() if sort.descending else one.asc().nulls_first() for one in order]


def _grouping(column: Column) -> ColumnElement[Any]:
    """What to group by: where a field sorts by a single expression, that one, which has the same values."""
    return column.sort[0] if len(column.sort) == 1 else column.expression


def _group(row: dict[str, object], fields: Sequence[str], columns: Columns) -> dict[str, object]:
    shown = {name: _rendered(columns[name], row[name]) for name in fields}
    return nest({name: MISSING if value is None else value for name, value in shown.items()} | {COUNT: row[COUNT]})


def _rendered(column: Column, value: object) -> object:
    return value if value is None or column.show is None else column.show(value)
