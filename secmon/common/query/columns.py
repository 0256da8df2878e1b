"""How the fields of an SQL collection stand in the database, and how rows become items again."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import ColumnElement


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

    expression: the table's column, or whatever SQL computes the field.
    sort: expressions to sort by instead of ``expression``, most significant first.
    guard: a condition added to every clause on the field (dates of agents leave out the manager's own entry).
    all_keyword: whether the value ``all`` drops a clause on the field, as it mostly does.
    encode: a date as the column stores it (kind DATE); must keep the order of dates.
    render: the stored value as clients see it, None to leave it out; ids are padded and members split without being
    told.
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

    def shown(self, value: object) -> object:
        """A stored value, not null, as clients see it."""
        if self.render is not None:
            return self.render(value)
        if self.kind is Kind.ID:
            return f"{value:03}" if isinstance(value, int) else str(value).zfill(3)
        if self.kind is Kind.MEMBERS:
            return str(value).split(",") if value else []
        return value


def nest(row: Mapping[str, object], columns: Mapping[str, Column] | None = None) -> dict[str, object]:
    """A row keyed by (dotted) field names as an item: ``os.name`` within ``os``.

    Nulls and the text ``(null)`` are left out (conventions.md 13.4). ``columns`` says how to show the values.
    """
    item: dict[str, object] = {}
    for name, value in row.items():
        if value is None or value == "(null)":
            continue
        if columns is not None and name in columns:
            value = columns[name].shown(value)
            if value is None:
                continue
        *parents, last = name.split(".")
        level = item
        for parent in parents:
            below = level.setdefault(parent, {})
            if not isinstance(below, dict):
                raise ValueError(f"field {parent} is a value and an object at once: {name}")
            level = below
        level[last] = value
    return item


_TIGHT_VERSION = re.compile(r"([A-Za-z]+?)(v[0-9])")


def spaced_version(value: str) -> str:
    """``Namev1.2`` as ``Name v1.2`` (conventions.md 5.2, special fields)."""
    found = _TIGHT_VERSION.match(value)
    return f"{found[1]} {value[found.start(2) :]}" if found else value
