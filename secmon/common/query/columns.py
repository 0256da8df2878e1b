"""Fields of an SQL collection: their columns in the database, and items from rows."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import ColumnElement

from secmon.common.query.shaping import Item


class Kind(Enum):
    """What a column holds, which decides how ``q``, ``search`` and the result treat it (conventions.md 5.2, 5.3)."""

    TEXT = auto()
    NUMBER = auto()
    ID = auto()  # a number that clients see zero-padded to three digits
    DATE = auto()  # a date; ``encode`` says in which form
    MEMBERS = auto()  # names joined by commas: ``=`` and ``!=`` ask for one of them
    VERSION = auto()  # "<name> v1.2.3"; clients may leave the blank out


def epoch_seconds(moment: datetime) -> object:
    """Seconds since 1970, as dates are stored unless a column says otherwise."""
    return moment.timestamp()


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of a collection.

    expression: the table's column, or the SQL that computes the field.
    sort: expressions to sort by instead of ``expression``, most significant first.
    guard: a condition added to every clause on the field (dates of agents leave out the manager's own entry).
    all_keyword: whether the value ``all`` drops a clause on the field, as it mostly does.
    encode: a date as the column stores it (kind DATE); must keep the order of dates.
    render: the stored value as clients see it, None to leave it out; ids are padded and members split in any
    case.
    member: whether a name, letter case aside, is among the members (kind MEMBERS); for tables that an index serves.
    """

    expression: ColumnElement[Any]
    kind: Kind = Kind.TEXT
    sort: tuple[ColumnElement[Any], ...] = ()
    guard: ColumnElement[bool] | None = None
    all_keyword: bool = True
    encode: Callable[[datetime], object] = epoch_seconds
    render: Callable[[Any], object] | None = None
    member: Callable[[str], ColumnElement[bool]] | None = None

    @property
    def show(self) -> Callable[[Any], object] | None:
        """How clients see a stored value that is not null; None: as it is."""
        return self.render or {Kind.ID: _padded, Kind.MEMBERS: _split}.get(self.kind)


def shaper(names: Iterable[str], columns: Mapping[str, Column]) -> Callable[[Iterable[object]], Item]:
    """A function from rows, their values in the order of ``names``, to items: ``os.name`` becomes a member of ``os``.

    Nulls and the text ``(null)`` are left out (conventions.md 13.4). ``columns`` says how to show the values.
    """
    plan = [(*_place(name), columns[name].show if name in columns else None) for name in names]
    places = {(*parents, last) for parents, last, _ in plan}
    if both := [".".join(path) for path in places if any(path == other[: len(path)] for other in places - {path})]:
        raise ValueError(f"a value and an object at once: {', '.join(both)}")

    def shape(row: Iterable[object]) -> Item:
        item: Item = {}
        for (parents, last, show), value in zip(plan, row, strict=True):
            if value is None or value == "(null)":
                continue
            if show is not None and (value := show(value)) is None:
                continue
            level: Any = item
            for parent in parents:
                level = level.setdefault(parent, {})
            level[last] = value
        return item

    return shape


def _place(name: str) -> tuple[tuple[str, ...], str]:
    *parents, last = name.split(".")
    return tuple(parents), last


def nest(row: Mapping[str, object], columns: Mapping[str, Column] | None = None) -> Item:
    """One row keyed by field names as :func:`shaper` shows it."""
    return shaper(row, columns or {})(row.values())


def _padded(number: object) -> str:
    return f"{number:03}" if isinstance(number, int) else str(number).zfill(3)


def _split(members: str) -> list[str]:
    return members.split(",") if members else []


_TIGHT_VERSION = re.compile(r"([A-Za-z]+?)(v[0-9])")


def spaced_version(value: str) -> str:
    """``Namev1.2`` as ``Name v1.2`` (conventions.md 5.2, special fields)."""
    found = _TIGHT_VERSION.match(value)
    return f"{found[1]} {value[found.start(2) :]}" if found else value
