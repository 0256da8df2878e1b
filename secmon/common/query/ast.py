"""The tree that ``q`` is parsed into. ``str(node)`` is the text again, and parses to the same tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


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
