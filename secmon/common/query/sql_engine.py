"""Collections held in tables: a :class:`Query` as SELECT statements built by SQLAlchemy Core.

``q`` is one parenthesised unit, ANDed with the search, with the statement's own filters and with the caller's
restriction, so that no OR in it reaches beyond what the caller may see (conventions.md 5.1).
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Integer,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
)

from secmon.common.json_text import json_text
from secmon.common.query.columns import Column, Kind, Shape, shape_of
from secmon.common.query.list_engine import Page, Part
from secmon.common.query.query import Query
from secmon.common.query.shaping import Item
from secmon.common.query.sql_conditions import condition, equals, found_in
from secmon.common.query.syntax import And, Clause, Fields, Node, Sort

__all__ = ["Rows", "Statements", "apply", "equals", "fetch", "fetch_part", "fetch_rows", "sort_values", "where"]


_OFFSET, _LIMIT = "page_offset", "page_limit"
_MAX_KEPT = 64
"""Forms kept of one statement: they differ in selection and order."""


class _Form(NamedTuple):
    """A page of all rows, and their number: a query adds its conditions to both.

    ``grouped``: what is counted are the rows of the page.
    """

    page: Select[Any]
    number: Select[Any]
    grouped: bool


@dataclass(frozen=True, slots=True)
class Statements:
    """``page`` gives the rows, their columns named as the fields, ``count`` the number of matches on all pages.

    ``offset`` and ``limit`` are parameters of ``page``; ``limit`` None: it is not cut.
    """

    form: _Form
    conditions: Sequence[ColumnElement[bool]]
    offset: int = 0
    limit: int | None = None

    @property
    def page(self) -> Select[Any]:
        return self.form.page.where(*self.conditions) if self.conditions else self.form.page

    @property
    def count(self) -> Select[Any]:
        if self.form.grouped:
            rows = self.page.order_by(None).limit(None).offset(None)
            return select(func.count()).select_from(rows.subquery())
        return self.form.number.where(*self.conditions) if self.conditions else self.form.number

    def run(self, connection: Connection) -> CursorResult[Any]:
        """The page."""
        return connection.execute(self.page, None if self.limit is None else {_OFFSET: self.offset, _LIMIT: self.limit})


class Rows(NamedTuple):
    """A page whose rows are not items yet; ``total`` counts the matches on all pages."""

    rows: Sequence[Sequence[Any]]
    total: int
    shape: Shape

    def items(self) -> list[Item]:
        return self.shape.items(self.rows)

    def text(self) -> bytes:
        """The items as JSON for clients: in half the time that objects would take."""
        return json_text(self.shape.records(self.rows))


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
    replaced, and it must not group or cut. For one that is made once, pages are built and compiled once.
    columns: every field of ``fields``; fields beyond those are searched but never returned or compared.
    now: the clock's reading, which relative dates count from.
    restrict: what the caller may see.
    tie: unique columns that order rows of equal sort value.
    part: make the statements of one node's :class:`Part`: whole rows from the first on, as many as the page could
    need (with ``distinct`` all distinct rows, the sort values among their columns).

    Raises 1407 (number compared with text), 1409, 1411, 1412.
    """
    conditions = where(query, columns, now) + ([] if restrict is None else [restrict])
    names = _names(query, columns, fields, part)
    if query.distinct:
        conditions += (_filled(columns[name]) for name in names)
    order = _Order(query.sort or default_sort or Sort(()), tuple(tie), query.distinct)
    form = _form_of(statement, {name: columns[name] for name in names}, order, columns, part=part)
    if part and query.distinct:
        return Statements(form, conditions)
    offset, limit = (0, query.offset + query.limit) if part else (query.offset, query.limit)
    return Statements(form, conditions, offset, limit)


def fetch(connection: Connection, statements: Statements, columns: Mapping[str, Column]) -> Page:
    """Run both statements; items nested, nulls left out."""
    found = fetch_rows(connection, statements, columns)
    return Page(found.items(), found.total)


def fetch_rows(
    connection: Connection, statements: Statements, columns: Mapping[str, Column], *, total: int | None = None
) -> Rows:
    """Run the statements; a page that is not full counts the matches by itself. ``total``: they are counted."""
    found = statements.run(connection)
    rows = found.all()
    if total is None:
        short = statements.limit is None or len(rows) < statements.limit
        counted = short and (rows or statements.offset == 0)
        total = statements.offset + len(rows) if counted else connection.execute(statements.count).scalar_one()
    return Rows(rows, total, shape_of(found.keys(), columns))


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


def _merge_keys(order: "_Order", columns: Mapping[str, Column], names: Collection[str]) -> list[ColumnElement[Any]]:
    """The sort values that the rows of a part lack, for the node that merges the parts."""
    fields = order.sort.fields
    if any(columns[name].sort for name in fields):
        raise ValueError("parts sorted by an expression cannot be merged by the values of their items")
    return [order.value(columns[name].expression).label(name) for name in fields if name not in names]


def _filled(column: Column) -> ColumnElement[bool]:
    """``distinct`` drops rows where a selected field is null or empty (conventions.md 5.7)."""
    present = column.expression.is_not(None)
    textual = column.kind in (Kind.TEXT, Kind.MEMBERS, Kind.VERSION)
    return and_(present, column.expression != "") if textual else present


def sort_values(sort: Sort, columns: Mapping[str, Column]) -> list[ColumnElement[Any]]:
    """What ``sort`` compares, most significant first."""
    return [one for name in sort.fields for one in columns[name].sort or (columns[name].expression,)]


@dataclass(frozen=True, slots=True)
class _Order:
    """Nulls first ascending, last descending (conventions.md 5.4), on every database; equal rows by ``tie``."""

    sort: Sort
    tie: tuple[ColumnElement[Any], ...]
    distinct: bool

    def clauses(self, columns: Mapping[str, Column]) -> list[ColumnElement[Any]]:
        ordered = [self.value(one) for one in sort_values(self.sort, columns)]
        directed = [one.desc().nulls_last() if self.sort.descending else one.asc().nulls_first() for one in ordered]
        return [*directed, *(func.min(one) if self.distinct else one for one in self.tie)]

    def value(self, expression: ColumnElement[Any]) -> ColumnElement[Any]:
        """The sort value of a (distinct) row: the first one of its rows."""
        if not self.distinct:
            return expression
        return func.max(expression) if self.sort.descending else func.min(expression)


_forms: WeakKeyDictionary[Select[Any], dict[Hashable, _Form]] = WeakKeyDictionary()


def _form_of(
    statement: Select[Any], shown: Mapping[str, Column], order: _Order, columns: Mapping[str, Column], *, part: bool
) -> _Form:
    """Built once for each statement, selection and order: to build and to compile takes longer than most queries."""
    sorted_by = tuple(columns[name] for name in order.sort.fields)
    key = (tuple(shown.items()), sorted_by, order.sort, order.tie, order.distinct, part)
    known = _forms.setdefault(statement, {})
    form = known.get(key)
    if form is None:
        if len(known) >= _MAX_KEPT:
            known.clear()
        form = known[key] = _built(statement, shown, order, columns, part=part)
    return form


def _built(
    statement: Select[Any], shown: Mapping[str, Column], order: _Order, columns: Mapping[str, Column], *, part: bool
) -> _Form:
    labelled: list[ColumnElement[Any]] = [column.expression.label(name) for name, column in shown.items()]
    if part:
        labelled += _merge_keys(order, columns, shown)
    page = statement.with_only_columns(*labelled, maintain_column_froms=True).order_by(None)
    count = page.with_only_columns(func.count(), maintain_column_froms=True)
    if order.distinct:
        page = page.group_by(*(column.expression for column in shown.values()))
    page = page.order_by(*order.clauses(columns))
    if not (part and order.distinct):
        page = page.offset(bindparam(_OFFSET, type_=Integer)).limit(bindparam(_LIMIT, type_=Integer))
    return _Form(page, count, order.distinct)
