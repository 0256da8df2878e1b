"""The SQL engine: what the worked examples leave open, and what must hold for any expression."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.query import And, Clause, Fields, Node, Op, Query, Search, Sort, merge
from secmon.common.query.columns import Column, Kind, nest, spaced_version
from secmon.common.query.parser import parse
from secmon.common.query.sql_engine import apply, equals, fetch, fetch_part
from secmon.common.query.syntax import MAX_CLAUSES, MAX_LENGTH
from tests.common.query.agents import AGENT, BY_ID, COLUMNS, FIELDS, NOW, ROWS, ask, database, ids
from tests.common.query.strategies import nodes, values


@pytest.fixture(scope="module")
def agents() -> Iterator[sa.Connection]:
    with database() as connection:
        yield connection


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("id=1.0", "001"),
        ("id= 1", "001"),
        ("id=x", ""),
        ("id!=x", "000 001 002 003 004 005 010"),
        ("id=" + "9" * 5000, ""),
        ("id<" + "9" * 5000 + ";id>-" + "9" * 30, "000 001 002 003 004 005 010"),
        ("id~001", "001 010"),
        ("name~win's", "004"),
        ("name~win.s", ""),
        ("name=win\"s", "004"),
        ("name!=win\"s;id>3", "005 010"),
        ("name=win'_", ""),
        ("version=Wazuhv4.8.1", "001"),
        ("version~wazuhv4.7", "002"),
        ("version!=wazuhv4.8.2", "001 002"),
        ("group=null", "000"),
        ("group!=null;id<3", "001 002"),
        ("group=w'b;group!=d'", "001 002"),
        ("group=w%", ""),
        ("group=WEB;group=db", "010"),
        ("lastKeepAlive=null", "004"),
        ("lastKeepAlive!=null;id<3", "001 002"),
        ("lastKeepAlive~1h", "002"),
        ("lastKeepAlive=2026-13-45,lastKeepAlive!=2026-13-45", ""),
        ("lastKeepAlive=2026-11-21 11:59:50", "001"),
        ("lastKeepAlive=2026-11-21T11:59:50.999Z", "001"),
        ("lastKeepAlive>2026-11-21T11:59:50", "003 010"),
        ("lastKeepAlive<2026-11-21T11:59:50", "002 005"),
        ("lastKeepAlive<9999-12-31T23:59:59", "001 002 003 005 010"),
        ("lastKeepAlive=all", "000 001 002 003 004 005 010"),
        ("name=web-01,status=all", "001"),
        ("(name~zzz;status=all),name=web-02", "002"),
        ("os.version=9.10", "010"),
        ("os.version= 9.10", "010"),
        ("name~\\", ""),
    ],
)  # fmt: skip
def test_clauses(agents: sa.Connection, q: str, expected: str) -> None:
    assert ids(ask(agents, q=q)) == expected


@pytest.mark.parametrize(
    ("q", "code"), [("id<x", 1407), ("id>1x", 1407), ("lastKeepAlive~2026-11-21", 1409), ("group>a", 1409)]
)
def test_refused(agents: sa.Connection, q: str, code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        ask(agents, q=q)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [("01", "001 003 010"), ("0001", "001"), ("-0.", "004"), ("win\"s", "004"), ("key1", ""), ("w%1", "001 010")],
)  # fmt: skip
def test_search(agents: sa.Connection, text: str, expected: str) -> None:
    assert ids(ask(agents, search=text)) == expected


def test_a_search_for_the_escape_character_is_literal(agents: sa.Connection) -> None:
    assert ids(ask(agents, search="|")) == ""
    assert ids(ask(agents, search="-|%")) == "000 001 002 003 004 005 010"


def test_all_may_be_an_ordinary_value() -> None:
    columns = {"name": Column(AGENT.c.name, all_keyword=False)}
    fields = Fields(engine="sql", select=("name",))
    with database() as connection:
        statements = apply(sa.select(AGENT), Query(q=parse("name=all")), columns, fields, now=NOW)
        assert fetch(connection, statements, columns).total == 0


def test_json_values_are_compacted_with_their_digits_kept() -> None:
    table = sa.table("t", sa.column("j", sa.Text))
    columns = {"j": Column(table.c.j)}
    with sa.create_engine("sqlite://").connect() as connection:
        connection.execute(sa.text("create table t (j text)"))
        connection.execute(sa.text("""insert into t values ('{"a b":[1.10,"x"]}')"""))
        for value, total in (('{"a b": [1.10, "x"]}', 1), ('{"a b": [1.1, "x"]}', 0), ('{"ab": [1.10, "x"]}', 0)):
            query = Query(q=parse(f"j={value}"))
            statements = apply(sa.select(table), query, columns, Fields(engine="sql", select=("j",)), now=NOW)
            assert fetch(connection, statements, columns).total == total


def test_dates_may_be_stored_as_text() -> None:
    table = sa.table("t", sa.column("at", sa.Text))
    columns = {"at": Column(table.c.at, Kind.DATE, encode=lambda moment: moment.strftime("%Y/%m/%d %H:%M:%S"))}
    with sa.create_engine("sqlite://").connect() as connection:
        connection.execute(sa.text("create table t (at text)"))
        connection.execute(sa.text("insert into t values ('2026/11/21 11:30:00'), ('2026/11/20 12:00:00'), (null)"))
        for value, total in (("<1h", 1), (">1h", 1), ("=2026-11-20 12:00:00", 1), (">2026-11-20", 2), ("=null", 1)):
            query = Query(q=parse(f"at{value}"))
            statements = apply(sa.select(table), query, columns, Fields(engine="sql", select=("at",)), now=NOW)
            assert fetch(connection, statements, columns).total == total, value


def test_equality_filters(agents: sa.Connection) -> None:
    def filtered(name: str, *wanted: str) -> str:
        return ids(ask(agents, restrict=equals(COLUMNS[name], wanted)))

    assert filtered("status", "ACTIVE", "pending") == "000 001 003 005 010"
    assert filtered("os.name", "null", "macos") == "004 005"
    assert filtered("group", "db") == "003 010"
    assert filtered("name", "all") == ""
    assert filtered("name") == ""


def test_the_statement_brings_filters_and_order_of_its_own(agents: sa.Connection) -> None:
    statement = sa.select(AGENT.c.name).where(sa.or_(AGENT.c.id == 1, AGENT.c.id == 2)).order_by(AGENT.c.id.desc())
    statements = apply(statement, Query(q=parse("id>1,id=3")), COLUMNS, FIELDS, now=NOW, default_sort=BY_ID)
    page = fetch(agents, statements, COLUMNS)
    assert (ids(page), page.total) == ("002", 1)


def test_distinct_rows_sort_by_fields_that_are_not_selected(agents: sa.Connection) -> None:
    page = ask(agents, select="os.platform", distinct=True, sort="-id", limit=2)
    assert page.items == [{"os": {"platform": "ubuntu"}}, {"os": {"platform": "darwin"}}]
    assert page.total == 3


def test_columns_beyond_the_fields_are_searched_only(agents: sa.Connection) -> None:
    columns = {"name": COLUMNS["name"], "hidden": COLUMNS["ip"]}
    fields = Fields(engine="sql", select=("name",))
    statements = apply(sa.select(AGENT), Query(search=Search("10.0.0.21")), columns, fields, now=NOW)
    assert fetch(agents, statements, columns).items == [{"name": "DB-01"}]


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("sort", [None, "name", "-status,name", "group", "-lastKeepAlive"])
@pytest.mark.parametrize("select", [None, "status", "os.name,status"])
def test_parts_of_several_databases_merge_to_the_answer_of_one(
    agents: sa.Connection, distinct: bool, sort: str | None, select: str | None
) -> None:
    q = "os.minor!=null;group!=null" if distinct and select is None else None
    query = Query.parse(fields=FIELDS, sort=sort, select=select, distinct=distinct, q=q, offset=1, limit=3)
    parts = []
    for share in (AGENT.c.id <= 1, sa.and_(AGENT.c.id > 1, AGENT.c.id < 4), AGENT.c.id > 3):
        statements = apply(
            sa.select(AGENT),
            query,
            COLUMNS,
            FIELDS,
            now=NOW,
            restrict=share,
            default_sort=BY_ID,
            tie=(AGENT.c.id,),
            part=True,
        )
        parts.append(fetch_part(agents, statements, COLUMNS))
    whole = ask(agents, sort=sort, select=select, distinct=distinct, q=q, offset=1, limit=3)
    assert merge(parts, query, FIELDS, BY_ID) == whole


def test_parts_cannot_sort_by_expressions_that_items_lack() -> None:
    with pytest.raises(ValueError, match="merged"):
        apply(sa.select(AGENT), Query(sort=Sort(("os.version",))), COLUMNS, FIELDS, now=NOW, part=True)


def test_the_largest_expressions_run(agents: sa.Connection) -> None:
    assert ids(ask(agents, q=",".join(["id=1"] * MAX_CLAUSES))) == "001"
    assert ids(ask(agents, q=";".join(["group=web"] * MAX_CLAUSES), search="web", restrict=AGENT.c.id > 1)) == "002 010"
    assert ids(ask(agents, q="(a".replace("a", "id=1,") * 60 + "id=2" + ")" * 60)) == "001 002"
    assert ids(ask(agents, q="name~" + "𠀀" * (MAX_LENGTH - 5))) == ""
    assert ids(ask(agents, q="name~" + "%w_" * ((MAX_LENGTH - 5) // 3))) == ""
    assert ids(ask(agents, search="😀" * MAX_LENGTH)) == ""
    assert ids(ask(agents, q="name=" + "[" * (MAX_LENGTH - 5))) == ""


def test_nest() -> None:
    row = {"id": 7, "os.name": "x", "os.full.a": None, "note": "(null)", "g": "a,b", "at": 0, "big": 1234}
    columns = {
        "id": Column(sa.column("id"), Kind.ID),
        "g": Column(sa.column("g"), Kind.MEMBERS),
        "at": Column(sa.column("at"), Kind.DATE, render=lambda value: datetime.fromtimestamp(value, UTC).isoformat()),
        "big": Column(sa.column("big"), Kind.ID),
    }
    shown = {"id": "007", "os": {"name": "x"}, "g": ["a", "b"], "at": "1970-01-01T00:00:00+00:00", "big": "1234"}
    assert nest(row, columns) == shown
    assert nest({"a.b": 1, "a.c": 2, "d": None}) == {"a": {"b": 1, "c": 2}}
    with pytest.raises(ValueError, match="at once"):
        nest({"a": 1, "a.b": 2})


def test_spaced_version() -> None:
    assert [spaced_version(text) for text in ("Namev4.8", "Name v4.8", "v4.8", "4.8", "")] == [
        *("Name v4.8", "Name v4.8", "v4.8", "4.8", ""),
    ]


# What must hold for any expression. Python's own reading of the same clauses judges the database's.

_FIELDS = ("name", "status", "os.name", "os.version")
_ATTRIBUTE = {"os.name": "os_name", "os.version": "os_version"}
_VALUES = ["web-01", "WEB-02", "active", "ubuntu", "db", "9", "22.04", "m", "null"]


def _holds(node: Node, row: dict[str, Any]) -> bool:
    if not isinstance(node, Clause):
        found = [_holds(term, row) for term in node.terms]
        return all(found) if isinstance(node, And) else any(found)
    stored, value = row[_ATTRIBUTE.get(node.field, node.field)], node.value.lower()
    if value == "null":
        return (stored is None) is not (node.op is Op.NE)
    if stored is None:
        return False
    own = str(stored).lower()
    outcomes = (own == value, own != value, own < value, own > value, value in own)
    return dict(zip((Op.EQ, Op.NE, Op.LT, Op.GT, Op.LIKE), outcomes, strict=True))[node.op]


@settings(max_examples=200)
@given(node=nodes(st.sampled_from(_FIELDS), st.sampled_from(_VALUES)), allowed=st.sets(st.sampled_from(range(11))))
def test_or_never_escapes_the_restriction(agents: sa.Connection, node: Node, allowed: set[int]) -> None:
    expected = [row["id"] for row in ROWS if row["id"] in allowed and _holds(node, row)]
    page = ask(agents, q=str(node), restrict=AGENT.c.id.in_(allowed))
    assert [int(str(item["id"])) for item in page.items] == expected
    assert page.total == len(expected)


@settings(max_examples=200)
@given(node=nodes(st.sampled_from(FIELDS.select or ()), values() | st.text(min_size=1)), search=st.text(max_size=9))
def test_any_expression_runs_or_is_refused(agents: sa.Connection, node: Node, search: str) -> None:
    """No value, however odd, upsets the database or reaches beyond the restriction."""
    try:
        page = ask(agents, q=str(node), search=search, restrict=AGENT.c.id == 3)
    except SecmonError as error:
        assert error.code in (1403, 1407, 1408, 1409, 1411, 1412)  # noqa: PT017 - the property itself
    else:
        assert {item["id"] for item in page.items} <= {"003"}
