"""Comparisons that disregard the case of ASCII letters, each in the way that costs the database least."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import literal
from sqlalchemy.sql.functions import FunctionElement

ESCAPE = "|"
"""LIKE's escape character; q cannot hold it."""

_LITERAL = str.maketrans({one: ESCAPE + one for one in ("%", "_", ESCAPE)})


class Folded(FunctionElement[str]):
    """A text whose upper-case letters compare as the lower-case ones."""

    name = "folded"
    inherit_cache = True
    type = Text()


class Like(FunctionElement[bool]):
    """LIKE of a text and a pattern, with ``ESCAPE``."""

    name = "folded_like"
    inherit_cache = True
    type = Boolean()


def folded(value: ColumnElement[Any] | str) -> ColumnElement[str]:
    """``value``, to be compared with another folded one."""
    return Folded(literal(value) if isinstance(value, str) else value)


def like(text: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    """Whether ``text`` matches ``pattern``, in which ``%`` and ``_`` are wildcards unless preceded by ``ESCAPE``."""
    return Like(text, literal(pattern))


def escaped(text: str) -> str:
    """``text`` as a pattern for itself."""
    return text.translate(_LITERAL)


@compiles(Folded)
def _lower(element: Folded, compiler: SQLCompiler, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(Folded, "sqlite")
def _collated(element: Folded, compiler: SQLCompiler, **options: Any) -> str:
    return f"(({compiler.process(element.clauses, **options)}) COLLATE NOCASE)"


@compiles(Like)
def _lower_like(element: Like, compiler: SQLCompiler, **options: Any) -> str:
    text, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"(lower({text}) LIKE lower({pattern}) ESCAPE '{ESCAPE}')"


@compiles(Like, "sqlite")
def _sqlite_like(element: Like, compiler: SQLCompiler, **options: Any) -> str:
    """SQLite's LIKE knows no case."""
    text, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"({text} LIKE {pattern} ESCAPE '{ESCAPE}')"
