"""Collections held in tables: a :class:`Query` as SELECT statements built by SQLAlchemy Core.

``q`` is one parenthesised unit, ANDed with the search, with the statement's own filters and with the caller's
restriction, so that no OR in it reaches beyond what the caller may see (conventions.md 5.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, or_, select

from secmon.common.query.columns import Column, Kind, shaper
from secmon.common.query.list_engine import Page, Part
from secmon.common.query.query import Query
from secmon.common.query.shaping import Item
from secmon.common.query.sql_conditions import condition, equals, found_in
from secmon.common.query.syntax import And, Clause, Fields, Node, Sort

__all__ = ["Statements", "apply", "equals", "fetch", "fetch_items", "fetch_part", "sort_values", "where"]


@dataclass(frozen=True, slots=True)
class Statements:
    """``count`` gives the number of matches on all pages, ``page`` the rows, their columns named as the fields.

    ``offset`` and ``limit`` are those of ``page``; None: it is not cut.
    """

    count: Select[Any]
    page: Select[Any]
    offset: int = 0
    limit: int | None = None


def where(query: Query, columns: Mapping[str, Column], now: datetime) -> list[ColumnElement[bool]]:
    """``q`` and ``search`` as conditions that must all hold; at most one each. Raises as :func:`apply` does."""
    found = [] if query.q is None else [_node(query.q, columns, now)]
    conditions = [one for one in found if one is not None]
    if query.search is not None:
        conditions.append(found_in(query.search, columns.values()))
    return conditions


def apply(
    statement: Select[Any],
    query: Query,
    columns: Mapping[str, Column],
    fields: Fields,
    *,
    now: datetime,
    restrict: ColumnElement[bool] | None = None,
    default_sort: Sort | None = None,
    tie: Sequence[ColumnElement[Any]] = (),
    part: bool = False,
) -> Statements:
    """The two statements that answer ``query``.

    statement: any select over the tables of ``columns``, with its own joins and filters; its columns and order are
    replaced, and it must not group or cut.
    columns: every field of ``fields``; fields beyond those are searched but never returned or compared.
    now: the clock's reading, which relative dates count from.
    restrict: what the caller may see.
    tie: unique columns that order rows of equal sort value.
    part: make the statements of one node's :class:`Part`: whole rows from the first on, as many as the page could
    need (with ``distinct`` all distinct rows, the sort values among their columns).

    Raises 1407 (number compared with text), 1409, 1411, 1412.
    """
    base = statement.where(*where(query, columns, now)).order_by(None)
    if restrict is not None:
        base = base.where(restrict)
    sort = query.sort or default_sort or Sort(())
    names = _names(query, columns, fields, part)
    if query.distinct:
        base = base.where(*(_filled(columns[name]) for name in names))
        base = base.group_by(*(columns[name].expression for name in names))
    count = base.with_only_columns(literal(1).label("one"), maintain_column_froms=True).subquery()
    shown: list[ColumnElement[Any]] = [columns[name].expression.label(name) for name in names]
    if part:
        shown += _merge_keys(query, sort, columns, names)
    page = base.with_only_columns(*shown, maintain_column_froms=True).order_by(*_ordering(query, sort, columns, tie))
    counted = select(func.count()).select_from(count)
    if part and query.distinct:
        return Statements(counted, page)
    offset, limit = (0, query.offset + query.limit) if part else (query.offset, query.limit)
    return Statements(counted, page.offset(offset).limit(limit), offset, limit)


def fetch(connection: Connection, statements: Statements, columns: Mapping[str, Column]) -> Page:
    """Run both statements; items nested, nulls left out. A page that is not full counts the matches by itself."""
    items = fetch_items(connection, statements, columns)
    short = statements.limit is None or len(items) < statements.limit
    if short and (items or statements.offset == 0):
        return Page(items, statements.offset + len(items))
    return Page(items, connection.execute(statements.count).scalar_one())


def fetch_items(connection: Connection, statements: Statements, columns: Mapping[str, Column]) -> list[Item]:
    """The items of the page alone."""
    found = connection.execute(statements.page)
    return list(map(shaper(found.keys(), columns), found.all()))


def fetch_part(connection: Connection, statements: Statements, columns: Mapping[str, Column]) -> Part:
    """As :func:`fetch`, for statements made with ``part=True``; fold the nodes' parts with ``list_engine.merge``."""
    page = fetch(connection, statements, columns)
    return Part(page.items, page.total)


def _node(node: Node, columns: Mapping[str, Column], now: datetime) -> ColumnElement[bool] | None:
    """None: every clause is dropped by the keyword ``all``."""
    if isinstance(node, Clause):
        return condition(node, columns[node.field], now)
    terms = [term for term in (_node(one, columns, now) for one in node.terms) if term is not None]
    if not terms:
        return None
    return and_(*terms) if isinstance(node, And) else or_(*terms)


def _names(query: Query, columns: Mapping[str, Column], fields: Fields, part: bool) -> list[str]:
    """The fields that the rows hold, in the order of ``columns``."""
    wanted = {*(fields.select or ()), *fields.required}
    if query.distinct:
        wanted = set(query.select or fields.select or ())
    elif query.select is not None and not part:
        wanted = {*query.select, *fields.required}
    return [name for name in columns if name in wanted]


def _merge_keys(
    query: Query, sort: Sort, columns: Mapping[str, Column], names: Sequence[str]
) -> list[ColumnElement[Any]]:
    """The sort values that the rows of a part lack, for the node that merges the parts."""
    if any(columns[name].sort for name in sort.fields):
        raise ValueError("parts sorted by an expression cannot be merged by the values of their items")
    return [_order(columns[name].expression, sort, query).label(name) for name in sort.fields if name not in names]


def _filled(column: Column) -> ColumnElement[bool]:
    """``distinct`` drops rows where a selected field is null or empty (conventions.md 5.7)."""
    present = column.expression.is_not(None)
    textual = column.kind in (Kind.TEXT, Kind.MEMBERS, Kind.VERSION)
    return and_(present, column.expression != "") if textual else present


def sort_values(sort: Sort, columns: Mapping[str, Column]) -> list[ColumnElement[Any]]:
    """What ``sort`` compares, most significant first."""
    return [one for name in sort.fields for one in columns[name].sort or (columns[name].expression,)]


def _ordering(
    query: Query, sort: Sort, columns: Mapping[str, Column], tie: Sequence[ColumnElement[Any]]
) -> list[ColumnElement[Any]]:
    """Nulls first ascending, last descending (conventions.md 5.4), on every database."""
    ordered = [_order(one, sort, query) for one in sort_values(sort, columns)]
    directed = [one.desc().nulls_last() if sort.descending else one.asc().nulls_first() for one in ordered]
    return [*directed, *(func.min(one) if query.distinct else one for one in tie)]


def _order(expression: ColumnElement[Any], sort: Sort, query: Query) -> ColumnElement[Any]:
    """The sort value of a (distinct) row: the first one of its rows."""
    if not query.distinct:
        return expression
    return func.max(expression) if sort.descending else func.min(expression)
