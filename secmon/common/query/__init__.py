"""The query language of collections: q, sort, search, select, distinct, offset, limit.

Parsed once (:class:`Query`), run by one of two back ends: :mod:`list_engine` and :mod:`sql_engine`.
"""

from secmon.common.query.list_engine import Page, Part, PlainPage, merge, part, run, run_plain
from secmon.common.query.query import Query
from secmon.common.query.syntax import And, Clause, Fields, Node, Op, Or, Search, Sort

__all__ = [
    "And",
    "Clause",
    "Fields",
    "Node",
    "Op",
    "Or",
    "Page",
    "Part",
    "PlainPage",
    "Query",
    "Search",
    "Sort",
    "merge",
    "part",
    "run",
    "run_plain",
]
