"""Pages of agents: the database's answers against those worked out from Python objects."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from secmon.agents.registry.agent_fields import (
    FIELDS,
    Condition,
    calendar_date,
    in_scope,
    is_agent_id,
    manager_row,
    of_version,
    older_than,
    other_than,
    own_system,
    with_value,
    without_group,
)
from secmon.agents.registry.queries import (
    count_combinations,
    count_states,
    read_ids,
    read_page,
    read_platforms,
    unknown_ids,
)
from secmon.agents.wire.keepalive import System
from secmon.common.query import And, Clause, Fields, Op, Query, Search, Sort, run
from secmon.common.query.dates import Age
from secmon.common.query.parser import parse
from secmon.security.rbac.evaluate import Scope
from tests.agents.rows import EPOCH, NAMES, NOW, Row, agent, database, put, rows, shown
from tests.common.query.strategies import nodes


class Manager(TypedDict):
    node: str
    host: str
    system: System
    created: int


LIST = Fields(engine="sql", select=FIELDS.select, required=("id",), numeric=("id",))
DATES = ("dateAdd", "lastKeepAlive", "disconnection_time")
SORTABLE = tuple(name for name in FIELDS.select or () if name != "os.version")
TEXTS = tuple(name for name in SORTABLE if name not in ("id", "group", "status_code", *DATES))
SYSTEM = System(os_name="alpha", os_version="9", os_major="9", os_platform="web", os_uname="x |y |9")
MANAGER: Manager = {"node": "beta", "host": "al", "system": SYSTEM, "created": EPOCH - 1000}


@pytest.fixture(scope="module")
def store() -> Iterator[sa.Connection]:
    with database() as connection:
        yield connection


def manager_item(store: sa.Connection) -> dict[str, Any]:
    put(store, [])
    page = read_page(store, Query(), now=NOW, manager=manager_row(**MANAGER))
    return dict(page.items[0])


def several(names: Sequence[str], most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True).map(tuple)


def queries() -> st.SearchStrategy[Query]:
    """Questions that both back ends understand alike: texts in lower case, no nulls, no quotes, no dates."""
    values = st.sampled_from(["alpha", "al", "a", "9", "10.9", "x y", "active", "zeta", "web", "d"])
    groups = st.builds(Clause, st.just("group"), st.sampled_from([Op.EQ, Op.LIKE]), st.sampled_from(["db", "mail"]))
    codes = st.builds(Clause, st.just("status_code"), st.sampled_from(Op), st.sampled_from(["0", "3"]))
    trees = nodes(st.sampled_from(TEXTS), values) | groups | codes | st.builds(And, st.tuples(groups, codes))
    return st.builds(
        Query,
        q=st.none() | trees,
        sort=st.none() | st.builds(Sort, several(SORTABLE, 3), st.booleans()),
        search=st.none() | st.builds(Search, st.sampled_from(["al", "eta", "mail"]), st.booleans()),
        select=st.none() | several(FIELDS.select or (), 4),
        offset=st.integers(0, 4),
        limit=st.integers(1, 6),
    )


def scopes() -> st.SearchStrategy[Scope]:
    odd = st.sampled_from(["000", "001", "7", "0003", "01000", "x", "\u0661\u0661\u0661"])
    return st.builds(Scope, st.frozensets(odd | st.integers(1, 1200).map("{:03}".format), max_size=8), st.booleans())


@given(rows(), queries(), scopes(), st.booleans())
def test_pages_are_those_of_the_object_back_end(
    store: sa.Connection, held: list[Row], query: Query, scope: Scope, with_manager: bool
) -> None:
    everyone = [manager_item(store)] if with_manager else []
    everyone += [shown(row) for row in held]
    expected = run([item for item in everyone if item["id"] in scope], query, LIST, Sort(("id",)))
    put(store, held)
    manager = manager_row(**MANAGER) if with_manager else None
    assert read_page(store, query, now=NOW, where=[in_scope(scope)], manager=manager) == expected


@given(rows(), queries(), st.booleans())
def test_pages_one_after_the_other_are_the_whole(
    store: sa.Connection, held: list[Row], query: Query, with_manager: bool
) -> None:
    put(store, held)
    manager = manager_row(**MANAGER) if with_manager else None
    whole = read_page(store, replace(query, offset=0, limit=100), now=NOW, manager=manager)
    pieces: list[Any] = []
    for offset in range(0, whole.total + query.limit, query.limit):
        page = read_page(store, replace(query, offset=offset), now=NOW, manager=manager)
        assert page.total == whole.total
        pieces += page.items
    assert pieces == whole.items


@given(rows(), several([name for name in SORTABLE if name not in DATES], 3), st.booleans())
def test_combinations_are_counted(
    store: sa.Connection, held: list[Row], fields: tuple[str, ...], with_manager: bool
) -> None:
    everyone = [manager_item(store)] if with_manager else []
    everyone += [shown(row) for row in held]
    counts = Counter(tuple(str(at(item, name)) for name in fields) for item in everyone)
    put(store, held)
    manager = manager_row(**MANAGER) if with_manager else None
    page = count_combinations(store, Query(), fields, now=NOW, manager=manager)
    assert [(tuple(str(at(one, name)) for name in fields), one["count"]) for one in page.items] == list(counts.items())
    assert page.total == len(counts)
    fewest = count_combinations(store, Query(sort=Sort(("count",)), limit=2), fields, now=NOW, manager=manager)
    assert [one["count"] for one in fewest.items] == sorted(counts.values())[:2]


@given(rows(), several([name for name in SORTABLE if name not in DATES], 2), st.booleans())
def test_distinct_rows_are_whole_and_come_by_their_first_agent(
    store: sa.Connection, held: list[Row], fields: tuple[str, ...], with_manager: bool
) -> None:
    everyone = [manager_item(store)] if with_manager else []
    everyone += [shown(row) for row in held]
    found = [tuple(at(item, name) for name in fields) for item in everyone]
    expected = list(dict.fromkeys(str(row) for row in found if "unknown" not in row))
    put(store, held)
    manager = manager_row(**MANAGER) if with_manager else None
    page = read_page(store, Query(select=fields, distinct=True), now=NOW, manager=manager)
    assert [str(tuple(at(one, name) for name in fields)) for one in page.items] == expected
    assert page.total == len(expected)


def at(item: Any, name: str) -> Any:
    for part in name.split("."):
        item = item.get(part, {}) if isinstance(item, dict) else {}
    return "unknown" if item == {} else item


@given(rows(), st.integers(0, 100), st.sampled_from(NAMES))
def test_conditions(store: sa.Connection, held: list[Row], seconds: int, group: str) -> None:
    put(store, held)
    edge = EPOCH - seconds

    def matching(condition: Condition) -> list[int]:
        return read_ids(store, now=NOW, where=[condition])

    def silent(row: Row) -> bool:
        since = row["date_add"] if row["connection_status"] == "never_connected" else row["last_keepalive"]
        return since is not None and int(since) < edge

    assert matching(older_than(Age(seconds), NOW)) == [row["id"] for row in held if silent(row)]
    assert matching(without_group) == [row["id"] for row in held if row["group"] is None]
    members = [row["id"] for row in held if group.lower() in (row["group"] or "").lower().split(",")]
    assert matching(with_value("group", group)) == members
    others = [row["id"] for row in held if row["group"] and row["id"] not in members]
    assert read_ids(store, now=NOW, q=parse(f"group!={group}")) == others


@given(rows(), scopes())
def test_counts(store: sa.Connection, held: list[Row], scope: Scope) -> None:
    put(store, held)
    seen = [row for row in held if f"{row['id']:03}" in scope]
    states = Counter((row["connection_status"], row["group_config_status"]) for row in seen)
    assert {(one, two): count for one, two, count in count_states(store, [in_scope(scope)])} == states
    platforms = sorted({row["os_platform"] for row in seen if row["os_platform"]})
    assert read_platforms(store, [in_scope(scope)]) == platforms
    asked = ["000", "0003", "003", "x", *(f"{row['id']:03}" for row in seen), "003"]
    ids = {f"{row['id']:03}" for row in held}
    assert unknown_ids(store, asked) == [one for one in ("0003", "003", "x") if one not in ids]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4.8.2", [1, 2, 5]),
        ("v4.8.2", [1, 2, 5]),
        ("V4.8.2", [1, 2, 5]),
        ("wazuh 4.8.2", [1]),
        ("wazuh v4.8.2", [1]),
        ("Other v4.8.2", [5]),
        ("8.2", []),
        ("4.8", []),
        ("null", [4]),
        ("vista", []),
        ("Wazuh v4.8.20", [3]),
    ],
)
def test_versions(store: sa.Connection, value: str, expected: list[int]) -> None:
    versions = ("Wazuh v4.8.2", "v4.8.2", "Wazuh v4.8.20", None, "Other v4.8.2")
    put(store, [agent(n, version=version) for n, version in enumerate(versions, 1)])
    assert read_ids(store, now=NOW, where=[of_version(value)]) == expected


def test_outdated_is_another_version_with_any_product_name(store: sa.Connection) -> None:
    versions = ("Wazuh v4.8.2", "v4.8.2", "Wazuh v4.8.20", None, "Wazuh v4.7.0")
    put(store, [agent(n, version=version) for n, version in enumerate(versions, 1)])
    assert read_ids(store, now=NOW, where=[other_than("v4.8.2")]) == [3, 5]


def test_the_manager_is_agent_000(store: sa.Connection) -> None:
    item = manager_item(store)
    assert item["id"] == "000"
    assert item["ip"] == item["registerIP"] == "127.0.0.1"
    assert (item["status"], item["status_code"], item["group_config_status"]) == ("active", 0, "synced")
    assert item["lastKeepAlive"] == "9999-12-31T23:59:59+00:00"
    assert item["dateAdd"] == "2026-11-21T11:43:20+00:00"
    assert item["node_name"] == "beta"
    assert item["version"].endswith(" v4.8.2")
    assert item["name"] == item["manager"] == "al"
    assert item["os"] == {"name": "alpha", "version": "9", "major": "9", "platform": "web", "uname": "x |y |9"}
    assert not {"group", "mergedSum", "configSum", "disconnection_time"} & set(item)


def test_dates_of_the_manager_are_never_found(store: sa.Connection) -> None:
    put(store, [agent(1, last_keepalive=EPOCH - 10)])
    manager = manager_row(**MANAGER)
    for q, expected in (("lastKeepAlive>2026-11-20", 1), ("dateAdd<1d", 0), ("dateAdd!=2026-01-01", 1)):
        assert read_page(store, Query(q=parse(q)), now=NOW, manager=manager).total == expected


def test_versions_of_systems_sort_by_their_numbers(store: sa.Connection) -> None:
    systems = (("22", "04"), ("9", "10"), ("9", "9"), (None, None))
    put(store, [agent(n, os_version="x", os_major=a, os_minor=b) for n, (a, b) in enumerate(systems, 1)])
    page = read_page(store, Query(sort=Sort(("os.version",))), now=NOW)
    assert [item["id"] for item in page.items] == ["004", "003", "002", "001"]


def test_texts_sort_by_bytes(store: sa.Connection) -> None:
    put(store, [agent(n, manager_host=name) for n, name in enumerate(("b", "B", "a", None), 1)])
    page = read_page(store, Query(sort=Sort(("manager",))), now=NOW)
    assert [item["id"] for item in page.items] == ["004", "002", "003", "001"]


def test_the_manager_is_sorted_among_many(store: sa.Connection) -> None:
    put(store, [agent(n, last_keepalive=EPOCH) for n in range(1, 1201)])
    manager = manager_row(**MANAGER)
    last = read_page(store, Query(sort=Sort(("lastKeepAlive",)), offset=1198, limit=10), now=NOW, manager=manager)
    assert [item["id"] for item in last.items] == ["1199", "1200", "000"]
    first = read_page(store, Query(offset=999, limit=2), now=NOW, manager=manager)
    assert [item["id"] for item in first.items] == ["999", "1000"]
    assert first.total == last.total == 1201


def test_large_sets_of_ids_are_one_parameter(store: sa.Connection) -> None:
    put(store, [agent(n) for n in range(1, 2001)])
    odd = frozenset(f"{n:03}" for n in range(1, 100_000, 2))
    assert read_page(store, Query(limit=1), now=NOW, where=[in_scope(Scope(odd))]).total == 1000
    assert read_page(store, Query(limit=1), now=NOW, where=[in_scope(Scope(odd, complement=True))]).total == 1000


def test_representations_hide_keys(store: sa.Connection) -> None:
    put(store, [agent(1)])
    page = read_page(store, Query(), now=NOW, manager=manager_row(**MANAGER))
    assert "key1" not in str(page.items)
    assert read_page(store, Query(search=Search("key1")), now=NOW).total == 0


@pytest.mark.parametrize(
    ("text", "fine"),
    [("000", True), ("001", True), ("1000", True), ("01", False), ("0001", False), ("x", False), ("9" * 19, False)],
)
def test_proper_ids(text: str, fine: bool) -> None:
    assert is_agent_id(text) is fine


def test_the_system_of_this_host_is_known() -> None:
    system = own_system()
    assert system.os_uname is not None
    assert system.os_uname.count(" |") == 4
    assert system.os_name


@given(st.integers(-(2**63), 2**63) | st.integers(-(10**11), 10**12))
def test_dates_are_those_of_the_calendar(seconds: int) -> None:
    try:
        expected = datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        expected = None
    assert calendar_date(seconds) == expected


def test_what_is_no_date_is_none() -> None:
    assert [calendar_date(value) for value in (math.inf, -math.inf, math.nan)] == [None] * 3
    assert calendar_date(0.5) == "1970-01-01T00:00:00+00:00"
