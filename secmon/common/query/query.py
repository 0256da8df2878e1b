"""The collection parameters of one call, parsed once (conventions.md 4.3 and 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from secmon.common.errors import SecmonError
from secmon.common.query import dates, parser
from secmon.common.query.syntax import EXCERPT, Clause, Fields, Node, Op, Search, Sort, clauses

MAX_LIMIT = 100_000
"""Items of one page (conventions.md 4.3)."""

_END = 2**63 - 1
"""What a database, and an index of Python, can count to."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to keep, in which order, which fields of it, and which page. ``limit`` is a count of items."""

    q: Node | None = None
    sort: Sort | None = None
    search: Search | None = None
    select: tuple[str, ...] | None = None
    distinct: bool = False
    offset: int = 0
    limit: int = 500

    @classmethod
    def parse(
        cls,
        *,
        fields: Fields,
        q: str | None = None,
        sort: str | None = None,
        search: str | None = None,
        select: Sequence[str] | None = None,
        distinct: bool = False,
        offset: int = 0,
        limit: int = 500,
    ) -> "Query":
        """Parse and check against ``fields``; empty texts count as absent. ``select`` is a comma list or its parts.

        Raises 1400, 1401, 1405, 1406, 2003 (page), 1403 (sort), 1407, 1408, 1409, 1411, 1412 (q) and 1724 (select).
        Unlike the reference, a wrong ``q`` or ``sort`` is refused even when the collection happens to be empty;
        ``select`` of the list engine is checked with the items (:func:`check_select`).
        """
        _check_page(offset, limit)
        if offset + limit > _END:
            offset = _last_page(offset, limit, fields)
        return cls(
            q=_parse_q(q, fields) if q else None,
            sort=Sort.parse(sort, fields) if sort else None,
            search=Search.parse(search) if search else None,
            select=_parse_select(select, fields) if select else None,
            distinct=distinct,
            offset=offset,
            limit=limit,
        )


def _check_page(offset: int, limit: int) -> None:
    if offset < 0:
        raise SecmonError(1400, str(offset))
    if limit < 0:
        raise SecmonError(1401, str(limit))
    if limit == 0:
        raise SecmonError(1406)
    if limit > MAX_LIMIT:
        raise SecmonError(1405, str(limit))


def _last_page(offset: int, limit: int, fields: Fields) -> int:
    """An offset as far behind the end of any list. Raises 2003 where a database counts (conventions.md 4.3)."""
    if fields.engine == "sql":
        raise SecmonError(2003, f"the offset is greater than the maximum of {_END - limit}")
    return _END - limit


def _parse_q(text: str, fields: Fields) -> Node:
    node = parser.parse(text, fields.engine)
    for clause in clauses(node):
        _check_clause(clause, fields)
    return node


def _check_clause(clause: Clause, fields: Fields) -> None:
    if fields.engine == "sql" and clause.field not in (fields.select or ()):
        raise SecmonError(1408, f"{clause.field[:EXCERPT]!r}; valid: {', '.join(fields.select or ())}")
    allowed = fields.operators.get(clause.field)
    if allowed is not None and clause.op not in allowed:
        raise SecmonError(1409, f"{clause.field} takes {' '.join(op for op in Op if op in allowed)}")
    if fields.engine == "sql" and clause.field in fields.dates and clause.value not in ("null", "all"):
        dates.moment(clause.value)


def _parse_select(select: Sequence[str], fields: Fields) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(select.split(",") if isinstance(select, str) else select))
    if fields.engine == "sql":
        check_select(names, fields)
    return names


def check_select(names: Sequence[str], fields: Fields) -> None:
    """Raises 1724 for names that the collection does not declare; any name will do where it declares none."""
    allowed = fields.select
    if allowed is None:
        return
    # The list engine checks top-level names only: the rest of a path that an item lacks selects nothing of it.
    top_level = fields.engine == "list"
    known = {_first_part(name) for name in allowed} if top_level else allowed
    if any((_first_part(name) if top_level else name) not in known for name in names):
        raise SecmonError(1724, f"{', '.join(names)[:EXCERPT]!r}; selectable: {', '.join(allowed)}")


def _first_part(name: str) -> str:
    return name.partition(".")[0]
