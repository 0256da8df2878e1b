"""The query language of collections: q, sort, search, select, distinct, offset, limit.

Parsed once (:class:`Query`), run by one of two back ends: :mod:`objects` and :mod:`sql`.
"""

from secmon.common.query.ast import And, Clause, Node, Op, Or
from secmon.common.query.fields import Fields
from secmon.common.query.objects import Page, Part, PlainPage, merge, part, run, run_plain
from secmon.common.query.query import Query
from secmon.common.query.search import Search
from secmon.common.query.sort import Sort

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
