"""The list engine: what the worked examples leave open, and the parts of several nodes."""

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.query import Clause, Fields, Op, Page, Part, Query, Search, Sort, merge, part, run, run_plain
from secmon.common.query.shaping import Item
from tests.common.query.strategies import nodes

NAMES = ("id", "name", "level", "tags", "on", "more")
FIELDS = Fields(engine="list", select=NAMES, sort=NAMES, required=("id",))
FREE = Fields(engine="list", required=("id",))


def ask(items: Sequence[Item], fields: Fields = FIELDS, **parameters: Any) -> list[Item]:
    return run(items, Query.parse(fields=fields, **parameters), fields).items


@pytest.mark.parametrize(
    ("value", "q", "holds"),
    [
        ("x", "v<y", True),
        ("X", "v<a", True),
        ("null", "v=null", True),
        (None, "v=null", False),
        (None, "v!=x", False),
        ([], "v!=x", False),
        (["a", None, "b"], "v=b", True),
        ([["a"], ["b"]], "v=b", True),
        (7, "v=007", True),
        (7, "v= 7 ", True),
        (-7, "v<-6", True),
        (17, "v~7", True),
        (17, "v~x", False),
        (True, "v=true", True),
        (True, "v=1", False),
        (False, "v~als", True),
        (1.5, "v=1.5", True),
        (10.5, "v>9", True),
        (1.5, "v~.5", True),
        ({"a": 1}, 'v={"a":1}', True),
        ("2024-01-02T00:00:00Z", "v=2024-01-02", True),
        ("2024-01-02 00:00:00", "v=2024-01-02T00:00:00.000000Z", True),
        ("2024-01-02T00:00:01Z", "v>2024-01-02", True),
        ("2024-01-02T00:00:01Z", "v~2024-01-02", True),
        ("no date", "v=2024-01-02", False),
        ("no date", "v!=2024-01-02", True),
        ("no date", "v<2024-01-02", False),
        ("no date", "v>2024-01-02", False),
        ("x'y", "v=x_y", False),
        ("axb", "v~a%b", False),
    ],
)
def test_comparisons(value: object, q: str, holds: bool) -> None:
    assert bool(ask([{"v": value}], FREE, q=q)) is holds


def test_lists_on_the_way_are_searched_element_by_element() -> None:
    item: Item = {"rows": [{"a": 1, "b": "x"}, {"a": 2}]}
    assert ask([item], FREE, q="rows.a=2;rows.b=x") == [item]
    assert ask([item], FREE, q="rows.b.c=x") == []


@pytest.mark.parametrize("q", ["v=x", "v>1.0", "v=" + "9" * 5000])
def test_an_integer_compared_with_something_else_is_refused(q: str) -> None:
    with pytest.raises(SecmonError, match="1407"):
        ask([{"v": 1}], FREE, q=q)


@pytest.mark.parametrize(
    ("text", "found"),
    [("TRUE", [1]), ("none", [1]), ("12", [1]), ("deep", [2]), ("key", []), ("-deep", [1]), ("-", [1, 2])],
)
def test_search_looks_at_values_of_any_depth(text: str, found: list[int]) -> None:
    items: list[Item] = [{"id": 1, "on": True, "more": None, "level": 123}, {"id": 2, "more": [{"key": ["very Deep"]}]}]
    assert [item["id"] for item in ask(items, search=text)] == found


def test_search_in_declared_fields_only() -> None:
    fields = Fields(engine="list", search_in=("a", "b"))
    assert ask([{"a": "x", "c": "y"}], fields, search="x")
    assert not ask([{"a": "x", "c": "y"}], fields, search="y")


def test_sort_orders_missing_numbers_texts_and_the_rest() -> None:
    named: list[object] = ["b", "A", None, 5, ["B", "c"], {"x": 1}, "a"]
    items: list[Item] = [{"id": number, "name": name} for number, name in enumerate(named, 1)]
    items[2].pop("name")
    assert [item["id"] for item in ask(items, sort="name")] == [3, 4, 2, 7, 1, 5, 6]
    assert [item["id"] for item in ask(items, sort="-name")] == [6, 5, 1, 2, 7, 4, 3]
    assert [item["id"] for item in ask(items, sort="-")] == [1, 2, 3, 4, 5, 6, 7]


def test_default_order_yields_to_the_parameter() -> None:
    items: list[Item] = [{"id": 2, "name": "a"}, {"id": 1, "name": "b"}]
    by_id = Sort(("id",))
    assert run(items, Query(), FIELDS, by_id).items == items[::-1]
    assert run(items, Query(sort=Sort(("name",))), FIELDS, by_id).items == items
    assert run(items, Query(sort=Sort(())), FIELDS, by_id).items == items


def test_undeclared_sort_fields_are_those_of_the_first_item() -> None:
    assert ask([{"b": 2, "c": 1}, {"b": 1}], FREE, sort="b") == [{"b": 1}, {"b": 2, "c": 1}]
    with pytest.raises(SecmonError, match=r"1403.*'x'; sortable: b, c"):
        ask([{"b": 2, "c": 1}], FREE, sort="b,x")
    assert ask([], FREE, sort="x") == []


def test_select_merges_paths_and_keeps_falsy_values() -> None:
    item: Item = {"id": 1, "on": False, "level": 0, "name": None, "more": {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}}
    assert ask([item], select="more.a,more.b.c") == [{"id": 1, "more": {"a": 1, "b": {"c": 2}}}]
    assert ask([item], select="more.a,more") == [{"id": 1, "more": item["more"]}]
    assert ask([item], select="more,more.a.b") == [{"id": 1, "more": item["more"]}]
    assert ask([item], select="on,level,name") == [{"id": 1, "on": False, "level": 0, "name": None}]
    assert ask([item], select="name.x") == [{"id": 1}]


def test_select_without_declaration_must_select_something() -> None:
    items: list[Item] = [{"id": 1, "a": None}]
    assert ask(items, FREE, select="a,foo") == [{"id": 1, "a": None}]
    with pytest.raises(SecmonError, match=r"1724.*'foo'; selectable: id, a"):
        ask(items, FREE, select="foo")
    assert ask([], FREE, select="foo") == []


def test_select_is_checked_where_there_are_items() -> None:
    assert ask([], select="foo") == []
    with pytest.raises(SecmonError, match=r"1724.*'name, foo'; selectable: id, name"):
        ask([{"id": 1}], select="name,foo")
    with pytest.raises(SecmonError, match=r"1724.*'foo.bar'; selectable: id, name"):
        ask([{"id": 1}], select="foo.bar")
    assert ask([{"id": 1}], select="name.bar") == [{"id": 1}]


@pytest.mark.parametrize("offset", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_far_behind_the_end_is_an_empty_page(offset: int) -> None:
    items: list[Item] = [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]
    query = Query.parse(fields=FIELDS, offset=offset, limit=100_000)
    assert run(items, query, FIELDS) == Page([], 2)
    assert run(items, Query.parse(fields=FIELDS, offset=offset, distinct=True, sort="-name"), FIELDS) == Page([], 2)
    assert run_plain(["a"], query).total == 1


def test_distinct_counts_rows_and_keeps_first_appearance() -> None:
    items: list[Item] = [
        {"id": 1, "name": "b", "on": 1},
        {"id": 2, "name": "a", "on": True},
        {"id": 3, "on": 1, "name": "b"},
        {"id": 1, "on": 1, "name": "b"},
    ]
    page = run(items, Query.parse(fields=FIELDS, select="name", distinct=True, limit=1), FIELDS)
    assert (page.items, page.total) == ([{"name": "b"}], 2)
    assert ask(items, select="on", distinct=True) == [{"on": 1}, {"on": True}]
    assert ask(items, distinct=True) == items[:3]
    assert ask(items, select="name", distinct=True, sort="-id") == [{"name": "b"}, {"name": "a"}]


def test_plain_texts() -> None:
    values = ["web", "DB", "ssh", "db"]
    assert run_plain(values, Query()).items == ["DB", "db", "ssh", "web"]
    assert run_plain(["a", "B", "É", "b", "_"], Query()).items == ["B", "_", "a", "b", "É"]
    descending = run_plain(values, Query(sort=Sort((), descending=True), offset=1, limit=2))
    assert (descending.items, descending.total) == (["ssh", "db"], 4)
    assert run_plain(values, Query(search=Search("B"))).items == ["DB", "db", "web"]
    assert run_plain(values, Query(search=Search("b", negate=True))).items == ["ssh"]
    assert run_plain([*values, "db"], Query(distinct=True)).total == 4
    assert run_plain(values, Query(q=Clause("name", Op.NE, "x"))).items == []


def test_a_part_is_cut_to_what_the_page_may_need_and_survives_the_wire() -> None:
    items: list[Item] = [{"id": number, "name": "x"} for number in range(100)]
    query = Query.parse(fields=FIELDS, sort="-id", select="id", offset=3, limit=2)
    one = part(items, query, FIELDS)
    assert one == Part([{"id": number, "name": "x"} for number in (99, 98, 97, 96, 95)], 100)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Part) == one
    assert merge([one], query, FIELDS).items == [{"id": 96}, {"id": 95}]


def test_padded_numbers_merge_as_numbers() -> None:
    fields = Fields(engine="sql", select=("agent",), numeric=("agent",))
    parts = [Part([{"agent": "999"}, {"agent": "1001"}], 2), Part([{"agent": "1000"}], 1)]
    page = merge(parts, Query(sort=Sort(("agent",))), fields)
    assert [item["agent"] for item in page.items] == ["999", "1000", "1001"]


_texts = st.sampled_from(["a", "A", "b", "web-01", "", "2024-01-02"])
_items = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 5)},
        optional={
            "name": st.none() | _texts,
            "level": st.integers(-2, 2) | st.floats(-2, 2),
            "tags": st.lists(_texts, max_size=2),
            "on": st.booleans(),
            "more": st.dictionaries(st.sampled_from("xy"), _texts, max_size=2),
        },
    ),
    max_size=14,
)
_select = st.lists(st.sampled_from([*NAMES, "more.x", "more.y"]), min_size=1, max_size=3).map(tuple)
_sort = st.builds(Sort, st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple), st.booleans())
_queries = st.builds(
    Query,
    q=st.none() | nodes(st.sampled_from(["name", "tags", "on", "more.x"]), st.sampled_from(["a", "b", "tr"]), 4),
    sort=st.none() | _sort,
    search=st.none() | st.builds(Search, st.sampled_from(["a", "web", "1"]), st.booleans()),
    select=st.none() | _select,
    distinct=st.booleans(),
    offset=st.integers(0, 6),
    limit=st.integers(1, 6),
)


@settings(max_examples=300)
@given(_items, _queries, st.none() | _sort, st.lists(st.integers(0, 14), max_size=3))
def test_parts_of_any_split_merge_to_the_answer_of_one_node(
    items: list[Item], query: Query, default: Sort | None, cuts: list[int]
) -> None:
    before = copy.deepcopy(items)
    edges = [0, *sorted(cuts), len(items)]
    shares = [items[start:end] for start, end in itertools.pairwise(edges)]
    parts = [part(share, query, FIELDS, default) for share in shares]
    assert merge(parts, query, FIELDS, default) == run(items, query, FIELDS, default)
    assert query.distinct or all(len(one.items) <= query.offset + query.limit for one in parts)
    assert items == before


@settings(max_examples=200)
@given(_items, _queries)
def test_pages_together_are_the_whole(items: list[Item], query: Query) -> None:
    whole = run(items, _page(query, 0, 1000), FIELDS)
    pages = [run(items, _page(query, offset, query.limit), FIELDS) for offset in range(0, len(items), query.limit)]
    assert [item for page in pages for item in page.items] == whole.items
    assert {page.total for page in pages} <= {len(whole.items)}


def _page(query: Query, offset: int, limit: int) -> Query:
    return Query(query.q, query.sort, query.search, query.select, query.distinct, offset, limit)
