"""One ``q`` clause, or one ``search``, as an SQL condition: the SQL engine of conventions.md 5.2, 5.3 and 5.5.

Every value is a bound parameter. Conditions on a null column are never true, ``!=`` included.
"""

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, and_, case, cast, false, literal, or_, true

from secmon.common.errors import SecmonError
from secmon.common.query.columns import Column, Kind, spaced_version
from secmon.common.query.dates import Age, moment
from secmon.common.query.folding import folded, like
from secmon.common.query.syntax import EXCERPT, Clause, Op, Search

_Condition = ColumnElement[bool]

# The bars before signs are ``folding.ESCAPE``.
_QUOTES = str.maketrans({"'": "_", '"': "_"})
_LITERAL = str.maketrans({"%": "|%", "_": "|_", "|": "||", "'": "_", '"': "_"})
_WILD = str.maketrans({"|": "||", "'": "_", '"': "_"})
_JSON_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]++')
_NUMBER = re.compile(r" *-?[0-9]+(?:\.[0-9]*)? *")


def condition(clause: Clause, column: Column, now: datetime) -> _Condition | None:
    """The condition of ``clause``; None when its value is the keyword ``all``, which drops it.

    Raises 1407 (ordering a number against text), 1409 (operator not for this column), 1411, 1412 (dates).
    """
    if clause.value == "all" and column.all_keyword:
        return None
    found = _date(clause, column, now) if _is_date(clause, column) else _plain(clause, column)
    return found if column.guard is None else and_(column.guard, found)


def equals(column: Column, values: Iterable[str]) -> _Condition:
    """A filter parameter: any of ``values`` by the rules of ``=``; ``null`` is the empty column (conventions.md 5.8).

    ``all`` is an ordinary value here: what it disables is each operation's own matter. Not for columns of dates.
    """
    return or_(false(), *(_plain(Clause("filter", Op.EQ, value), column) for value in values))


def found_in(search: Search, columns: Iterable[Column]) -> _Condition:
    """``search`` over ``columns``: a null column holds no text. The empty text is in every row."""
    if not search.text:
        return false() if search.negate else true()
    tests = [(one, _holds(one, search.text)) for one in columns]
    if search.negate:
        return and_(true(), *(or_(one.expression.is_(None), ~test) for one, test in tests))
    return or_(false(), *(test for _, test in tests))


def _is_date(clause: Clause, column: Column) -> bool:
    return column.kind is Kind.DATE and clause.value != "null"


def _plain(clause: Clause, column: Column) -> _Condition:
    """A clause whose meaning does not depend on the time of day."""
    return _null(clause.op, column) if clause.value == "null" else _KINDS[column.kind](clause, column)


def _holds(column: Column, text: str) -> _Condition:
    """An id holds ``text`` as clients see it, zero-padded, or is that number: 001 finds 001, not 010; 01 both."""
    if column.kind is not Kind.ID:
        return like(_text_of(column), _wildcards(text))
    number, digits = column.expression, cast(column.expression, String)
    padded = case(
        (number < 10, literal("00").concat(digits)), (number < 100, literal("0").concat(digits)), else_=digits
    )
    held = like(padded, _wildcards(text))
    return or_(held, number == _bindable(text)) if text.isascii() and text.isdecimal() else held


def _text_of(column: Column) -> ColumnElement[Any]:
    return cast(column.expression, String) if column.kind in (Kind.NUMBER, Kind.ID, Kind.DATE) else column.expression


def _wildcards(text: str) -> str:
    """``text`` anywhere: ``%`` and ``_`` are wildcards, a quote is any one character."""
    return f"%{text.translate(_WILD)}%"


def _null(op: Op, column: Column) -> _Condition:
    """The reference takes ``!=null`` for "is null" too, a defect; the other operators mean that."""
    return column.expression.is_not(None) if op is Op.NE else column.expression.is_(None)


def _like(clause: Clause, column: Column) -> _Condition:
    value = _compact(clause.value)
    if column.kind is Kind.VERSION:
        value = spaced_version(value)
    if column.kind is Kind.ID and value.isdecimal():  # stored without leading zeros
        value = value.lstrip("0") or "0"
    return like(_text_of(column), _wildcards(value))


def _text(clause: Clause, column: Column) -> _Condition:
    if clause.op is Op.LIKE:
        return _like(clause, column)
    value = _compact(clause.value)
    if column.kind is Kind.VERSION:
        value = spaced_version(value)
    if clause.op in (Op.EQ, Op.NE) and value != value.translate(_QUOTES):
        same = like(column.expression, value.translate(_LITERAL))
        return same if clause.op is Op.EQ else ~same
    return _compare(clause.op, folded(column.expression), folded(value))


def _number(clause: Clause, column: Column) -> _Condition:
    if clause.op is Op.LIKE:
        return _like(clause, column)
    if _NUMBER.fullmatch(clause.value):
        return _compare(clause.op, column.expression, _bindable(clause.value))
    if clause.op in (Op.LT, Op.GT):
        raise SecmonError(1407, f"{str(clause)[:EXCERPT]!r}: the field holds numbers")
    return column.expression.is_not(None) if clause.op is Op.NE else false()


def _bindable(digits: str) -> int | float:
    """An integer if the database's 64 bits can hold it, else the nearest float: infinity at worst."""
    number = float(digits)
    return int(digits) if "." not in digits and abs(number) < 2**63 else number


def _date(clause: Clause, column: Column, now: datetime) -> _Condition:
    """Ages: ``<`` and ``=`` are newer, every other operator older. Instants compare to the second."""
    when = moment(clause.value)
    if when is None:
        return false()
    stored = column.expression
    if isinstance(when, Age):
        edge = column.encode(when.before(now))
        return stored > edge if clause.op in (Op.LT, Op.EQ) else stored < edge
    second = when.replace(microsecond=0)
    start, end = column.encode(second), column.encode(_next_second(second))
    match clause.op:
        case Op.EQ:
            return and_(stored >= start, stored < end)
        case Op.NE:
            return or_(stored < start, stored >= end)
        case Op.LT:
            return stored < start
        case Op.GT:
            return stored >= end
        case Op.LIKE:
            raise SecmonError(1409, f"{str(clause)[:EXCERPT]!r}: a date takes = != < >")


def _next_second(second: datetime) -> datetime:
    try:
        return second + timedelta(seconds=1)
    except OverflowError:  # the last second of the year 9999
        return datetime.max.replace(tzinfo=UTC)


def _members(clause: Clause, column: Column) -> _Condition:
    if clause.op is Op.LIKE:
        return _like(clause, column)
    if clause.op in (Op.LT, Op.GT):
        raise SecmonError(1409, f"{clause.field} takes = != ~")
    if column.member is not None and clause.value == clause.value.translate(_QUOTES):
        held = column.member(clause.value)
        return held if clause.op is Op.EQ else and_(column.expression.is_not(None), ~held)
    whole = literal(",").concat(column.expression).concat(",")
    member = like(whole, f"%,{clause.value.translate(_LITERAL)},%")
    return member if clause.op is Op.EQ else ~member


def _compare(op: Op, left: ColumnElement[Any], right: object) -> _Condition:
    match op:
        case Op.EQ:
            return left == right
        case Op.NE:
            return left != right
        case Op.LT:
            return left < right
        case _:
            return left > right


def _compact(value: str) -> str:
    """JSON without its blanks; other text as it is. Numbers keep their digits: ``9.10`` is a version, not 9.1."""
    try:
        json.loads(value)
    except (ValueError, RecursionError):  # not JSON, or nested beyond reason
        return value
    return _JSON_BLANKS.sub(lambda found: found[1] or "", value)


_KINDS: dict[Kind, Callable[[Clause, Column], _Condition]] = {
    Kind.TEXT: _text,
    Kind.VERSION: _text,
    Kind.NUMBER: _number,
    Kind.ID: _number,
    Kind.MEMBERS: _members,
}
