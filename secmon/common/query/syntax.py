"""The parts of a query as values: the tree of ``q``, ``search``, ``sort``, their limits, and what a collection allows.

``str(node)`` of a tree is the text again, and parses to the same tree. The limits bound the cost of a query by the size
of its text (conventions.md 5).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from secmon.common.errors import SecmonError

MAX_LENGTH = 8192
"""Characters of ``q`` or ``search``. A request line holds at most 8190 bytes (conventions.md 0), so this refuses no
real request; SQLite refuses LIKE patterns above 50000 bytes, which 8192 characters cannot reach."""

MAX_DEPTH = 64
"""Levels of parentheses."""

MAX_CLAUSES = 500
"""Clauses of one ``q``. SQLite refuses expression trees deeper than 1000."""

EXCERPT = 80
"""Characters of the offending text that an error quotes."""


def check_text(name: str, text: str) -> str:
    """``text`` itself; raises 1407 when it is too long or not storable as UTF-8 (lone surrogates)."""
    if len(text) > MAX_LENGTH:
        raise SecmonError(1407, f"{name} is longer than {MAX_LENGTH} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SecmonError(1407, f"{name} is not valid Unicode text") from error
    return text


class Op(StrEnum):
    """The five operators of conventions.md 5.1."""

    EQ = "="
    NE = "!="
    LT = "<"
    GT = ">"
    LIKE = "~"


@dataclass(frozen=True, slots=True)
class Clause:
    """One comparison. ``value`` is the text as the client sent it, blanks included."""

    field: str
    op: Op
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.op}{self.value}"


@dataclass(frozen=True, slots=True)
class And:
    """Two or more terms that must all hold."""

    terms: tuple["Node", ...]

    def __str__(self) -> str:
        return ";".join(str(term) if isinstance(term, Clause) else f"({term})" for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more terms of which one must hold."""

    terms: tuple["Node", ...]

    def __str__(self) -> str:
        return ",".join(f"({term})" if isinstance(term, Or) else str(term) for term in self.terms)


Node = Clause | And | Or


def clauses(node: Node) -> Iterator[Clause]:
    """Every clause of the tree, left to right."""
    if isinstance(node, Clause):
        yield node
    else:
        for term in node.terms:
            yield from clauses(term)


@dataclass(frozen=True, slots=True)
class Search:
    """Keep what contains ``text`` (or, negated, what does not). ``text`` may be empty: ``search=-``."""

    text: str
    negate: bool = False

    @classmethod
    def parse(cls, text: str) -> "Search":
        """Raises 1407 for text beyond the limits; its characters are the adapter's to check."""
        check_text("search", text)
        return cls(text[1:], True) if text.startswith("-") else cls(text)


@dataclass(frozen=True, slots=True)
class Fields:
    """Declaration of a collection.

    engine: which semantics apply (conventions.md 5). With ``sql``, ``select`` is the whole list of fields: the one
    for ``q`` and, unless ``sort`` says otherwise, for ``sort``.
    select, sort: allowed names; None in the list engine: the keys of the items.
    required: returned in any case, except with ``distinct``.
    dates: fields that hold dates (SQL engine; the list engine knows a date by its form).
    search_in: top-level fields that ``search`` looks in; None means all (list engine; in SQL, the columns say it).
    operators: fields that take only these operators; any other is 1409.
    numeric: text fields holding zero-padded numbers (agent ids), which sort as numbers.
    """

    engine: Literal["list", "sql"]
    select: tuple[str, ...] | None = None
    sort: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    search_in: tuple[str, ...] | None = None
    operators: Mapping[str, frozenset[Op]] = field(default_factory=dict)
    numeric: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.engine == "sql" and self.select is None:
            raise ValueError("the SQL engine needs its list of fields")

    @property
    def sortable(self) -> tuple[str, ...] | None:
        """Names that ``sort`` takes; None: the keys of the items."""
        return self.select if self.sort is None and self.engine == "sql" else self.sort


@dataclass(frozen=True, slots=True)
class Sort:
    """Order by ``fields``, first one first. No fields (a bare sign): the order of the source."""

    fields: tuple[str, ...]
    descending: bool = False

    @classmethod
    def parse(cls, text: str, fields: Fields) -> "Sort":
        """Raises 1403 for names that the collection does not sort by, and for a bare sign in the SQL engine."""
        names_text = text[1:] if text[:1] in ("+", "-") else text
        if not names_text and text and fields.engine == "list":
            return cls((), text == "-")
        names = tuple(dict.fromkeys(names_text.split(",")))
        allowed = fields.sortable
        wrong = [name for name in names if not name or (allowed is not None and name not in allowed)]
        if wrong:
            raise unsortable(wrong, allowed or ())
        return cls(names, text.startswith("-"))


def unsortable(wrong: list[str], allowed: tuple[str, ...]) -> SecmonError:
    """The 1403 error that names the faults and the choice."""
    return SecmonError(1403, f"{','.join(wrong)[:EXCERPT]!r}; sortable: {', '.join(allowed) or 'none'}")
