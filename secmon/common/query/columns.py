"""Fields of an SQL collection: their columns in the database, and items from rows."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import msgspec
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
        return self.render or _SHOWN.get(self.kind)


class Shape:
    """How rows become items: ``os.name`` is a member of ``os``, values are as their columns show them.

    Nulls and the text ``(null)`` are left out (conventions.md 13.4). Made by :func:`shape_of`.
    """

    def __init__(self, names: Sequence[str], shows: Sequence[Callable[[Any], object] | None]) -> None:
        """``names`` and how the values are shown, in the order of the columns. Raises ValueError."""
        self._shows = shows
        self._record = _Record(tuple((name.split("."), index) for index, name in enumerate(names)))

    def records(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """The items as structs, which are encoded in half the time."""
        if not rows:
            return []
        shown = [_shown(values, show) for values, show in zip(zip(*rows, strict=True), self._shows, strict=True)]
        return self._record.made_of(shown)

    def items(self, rows: Sequence[Sequence[Any]]) -> list[Item]:
        """The items as objects."""
        made: list[Item] = msgspec.to_builtins(self.records(rows))
        return made


class _Record:
    """A struct whose members are columns, or structs in turn; what is None is left out of its JSON."""

    def __init__(self, places: tuple[tuple[list[str], int], ...]) -> None:
        """The path below this struct and the index of each column. Raises ValueError for a value that is an object."""
        self._members: dict[str, int | _Record] = {}
        for path, index in places:
            if path[0] in self._members:
                continue
            below = tuple((other[1:], at) for other, at in places if other[0] == path[0])
            if len(below) > 1 and any(not other for other, _ in below):
                raise ValueError(f"a value and an object at once: {path[0]}")
            self._members[path[0]] = index if len(path) == 1 else _Record(below)
        keys = {f"m{number}": name for number, name in enumerate(self._members)}
        self._type = msgspec.defstruct(
            "Record", [(key, Any, None) for key in keys], rename=keys, omit_defaults=True, gc=False
        )

    def made_of(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        return list(map(self._type, *(self._values(member, columns) for member in self._members.values())))

    @staticmethod
    def _values(member: "int | _Record", columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
        if isinstance(member, int):
            return columns[member]
        empty = member._type()
        return [None if one == empty else one for one in member.made_of(columns)]


def _shown(values: Sequence[Any], show: Callable[[Any], object] | None) -> Sequence[Any]:
    """One column's values; None where there is none."""
    if "(null)" in values:
        values = [None if value == "(null)" else value for value in values]
    return values if show is None else [None if value is None else show(value) for value in values]


@lru_cache(maxsize=256)
def _shape(names: tuple[str, ...], shows: tuple[Callable[[Any], object] | None, ...]) -> Shape:
    return Shape(names, shows)


def shape_of(names: Iterable[str], columns: Mapping[str, Column]) -> Shape:
    """The shape of rows with values of these ``names``; ``columns`` says how to show them.

    Raises ValueError where one name is that of a value and of an object.
    """
    ordered = tuple(names)
    return _shape(ordered, tuple(columns[name].show if name in columns else None for name in ordered))


def nest(row: Mapping[str, object], columns: Mapping[str, Column] | None = None) -> Item:
    """One row keyed by field names as a :class:`Shape` shows it."""
    return shape_of(row, columns or {}).items([tuple(row.values())])[0]


def _padded(number: object) -> str:
    return f"{number:03}" if isinstance(number, int) else str(number).zfill(3)


def _split(members: str) -> list[str]:
    return members.split(",") if members else []


_SHOWN: Mapping[Kind, Callable[[Any], object]] = {Kind.ID: _padded, Kind.MEMBERS: _split}


_TIGHT_VERSION = re.compile(r"([A-Za-z]+?)(v[0-9])")


def spaced_version(value: str) -> str:
    """``Namev1.2`` as ``Name v1.2`` (conventions.md 5.2, special fields)."""
    found = _TIGHT_VERSION.match(value)
    return f"{found[1]} {value[found.start(2) :]}" if found else value
