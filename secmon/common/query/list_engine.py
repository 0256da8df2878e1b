"""Collections held as Python objects: one node's whole answer, or its part and the merge of the parts.

Order of ties: items that compare equal keep the order of the source, and over several nodes the order of the parts.
With that rule ``merge`` of the parts of any split equals ``run`` over all items in that order, totals included.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec

from secmon.common.query.list_conditions import contains, matches
from secmon.common.query.query import Query, check_select
from secmon.common.query.shaping import Item, identity, selector, sort_key
from secmon.common.query.syntax import Fields, Sort, unsortable


class Page(msgspec.Struct, frozen=True):
    """The items of one page, and how many there are on all pages."""

    items: list[Item]
    total: int


class PlainPage(msgspec.Struct, frozen=True):
    """A page of plain texts."""

    items: list[str]
    total: int


class Part(msgspec.Struct, frozen=True):
    """What one node contributes: whole items, sorted; enough of them for the page, even if other nodes have none.

    ``total`` counts the node's matches. With ``distinct``, ``items`` holds the first item of every distinct row.
    """

    items: list[Item]
    total: int


def run(items: Iterable[Item], query: Query, fields: Fields, default_sort: Sort | None = None) -> Page:
    """The page of ``items`` that ``query`` asks for. Items are never changed, but may be shared with the result.

    Raises 1403 and 1724 for names that only the items can refute, and 1407 for text compared with an integer field.
    """
    return merge([part(items, query, fields, default_sort)], query, fields, default_sort)


def part(items: Iterable[Item], query: Query, fields: Fields, default_sort: Sort | None = None) -> Part:
    """One node's share of the answer to ``query``. Raises as :func:`run` does.

    ``select`` and ``sort`` are checked where there are items only (conventions.md 5).
    """
    source = iter(items)
    first = next(source, None)
    if first is None:
        return Part([], 0)
    check_select(query.select or (), fields)
    sort = query.sort or default_sort
    _check_sort(query.sort, fields, first)
    found = _filtered(chain([first], source), query, fields)
    if query.distinct:
        rows = _distinct(_first(found, sort, fields, None), query, fields)
        return Part(rows, len(rows))
    wanted = query.offset + query.limit
    return Part(_first(found, sort, fields, wanted), len(found))


def merge(parts: Sequence[Part], query: Query, fields: Fields, default_sort: Sort | None = None) -> Page:
    """Fold the nodes' parts into the one page: merged by the sort order, then selected and cut."""
    sort = query.sort or default_sort
    every: Iterator[Item] = chain.from_iterable(one.items for one in parts)
    if sort is not None and sort.fields:
        every = heapq.merge(*(one.items for one in parts), key=sort_key(sort, fields), reverse=sort.descending)
    total = sum(one.total for one in parts)
    if query.distinct:
        rows = _distinct(every, query, fields)
        every, total = iter(rows), len(rows)
    pick = selector(query.select, fields, distinct=query.distinct)
    return Page([pick(item) for item in islice(every, query.offset, query.offset + query.limit)], total)


def run_plain(values: Iterable[str], query: Query) -> PlainPage:
    """The page of a list of plain texts (rule groups, requirements), by code points; a bare minus sign turns it round.

    ``q`` has no field to name and so finds nothing; ``select`` does not apply.
    """
    keep = contains(query.search) if query.search else None
    found = [value for value in values if query.q is None and (keep is None or keep(value))]
    if query.distinct:
        found = list(dict.fromkeys(found))
    found.sort(reverse=query.sort is not None and query.sort.descending)
    return PlainPage(found[query.offset : query.offset + query.limit], len(found))


def _check_sort(sort: Sort | None, fields: Fields, first: Item) -> None:
    """Undeclared sort fields are the keys of the first item (conventions.md 5.4)."""
    if sort is not None and fields.sortable is None:
        wrong = [name for name in sort.fields if name not in first]
        if wrong:
            raise unsortable(wrong, tuple(first))


def _filtered(items: Iterator[Item], query: Query, fields: Fields) -> list[Item]:
    if query.search is not None:
        items = filter(contains(query.search, fields.search_in), items)
    if query.q is not None:
        items = filter(matches(query.q), items)
    return list(items)


def _first(items: list[Item], sort: Sort | None, fields: Fields, count: int | None) -> list[Item]:
    """The first ``count`` items in the order of ``sort``; all without ``count``. heapq's choices are as stable."""
    if sort is None or not sort.fields:
        return items[:count]
    key = sort_key(sort, fields)
    if count is None or count >= len(items):
        return sorted(items, key=key, reverse=sort.descending)
    choose = heapq.nlargest if sort.descending else heapq.nsmallest
    return choose(count, items, key=key)


def _distinct(items: Iterable[Item], query: Query, fields: Fields) -> list[Item]:
    """The first item of every distinct selected row, in the order given."""
    pick = selector(query.select, fields, distinct=True)
    rows: dict[bytes, Item] = {}
    for item in items:
        rows.setdefault(identity(pick(item)), item)
    return list(rows.values())
