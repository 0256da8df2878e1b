"""The worked examples of conventions.md 5.9 for the SQL engine, by their numbers.

Left to the HTTP adapter and the agents area: 56, 71 and 74 (formats of parameters), 72 and 73 as to failed items.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from secmon.common.errors import SecmonError
from secmon.common.query.sql_engine import equals
from tests.common.query.agents import AGENT, COLUMNS, NOW, ask, database, ids

EVERY = "000 001 002 003 004 005 010"


@pytest.fixture(scope="module")
def agents() -> Iterator[sa.Connection]:
    with database() as connection:
        yield connection


FOUND = [
    ("1", {"q": "status=active"}, "000 001 003 010"),
    ("2", {"q": "status=ACTIVE"}, "000 001 003 010"),
    ("3", {"q": "status!=active"}, "002 004 005"),
    ("4", {"q": "name=WEB-01"}, "001"),
    ("5", {"q": "name~WEB"}, "001 002 010"),
    ("6", {"q": "name!=web-01"}, "000 002 003 004 005 010"),
    ("7a", {"q": "id=1"}, "001"),
    ("7b", {"q": "id=001"}, "001"),
    ("8", {"q": "id>2"}, "003 004 005 010"),
    ("9", {"q": "id~1"}, "001 010"),
    ("12", {"q": "version=wazuh v4.8.2"}, "000 003 005 010"),
    ("13", {"q": "version=v4.8.2"}, ""),
    ("14", {"q": "version>Wazuh v4.8.0"}, "000 001 003 005 010"),
    ("15", {"q": "os.version>9"}, "010"),
    ("16", {"q": "os.name=null"}, "004"),
    ("17 right", {"q": "os.name!=null"}, "000 001 002 003 005 010"),
    ("18", {"q": "status=all"}, EVERY),
    ("19", {"q": "group=web"}, "001 002 010"),
    ("20", {"q": "group!=web"}, "003 004 005"),
    ("21", {"q": "group~we"}, "001 002 010"),
    ("23", {"q": "group=default;group=web"}, "001"),
    ("25a", {"q": "lastKeepAlive<1h"}, "001 003 005 010"),
    ("25b", {"q": "lastKeepAlive=1h"}, "001 003 005 010"),
    ("25c", {"q": "lastKeepAlive<3600"}, "001 003 005 010"),
    ("26", {"q": "lastKeepAlive>1h"}, "002"),
    ("27", {"q": "lastKeepAlive<1d12h"}, "001 002 003 005 010"),
    ("29", {"q": "dateAdd>7d"}, "004 010"),
    ("30a", {"q": "lastKeepAlive>2026-11-20 10:00:00"}, "001 002 003 005 010"),
    ("30b", {"q": "lastKeepAlive>2026-11-20T10:00:00Z"}, "001 002 003 005 010"),
    ("31", {"q": "dateAdd!=2026-11-21"}, "001 002 003 004 005 010"),
    ("32", {"q": "status=active,status=pending"}, "000 001 003 005 010"),
    ("33", {"q": "status=active;os.name=Ubuntu"}, "000 001 010"),
    ("34", {"q": "name=web-01,name=web-02;status=active"}, "001"),
    ("35", {"q": "(name=web-01,name=web-02);status=active"}, "001"),
    ("36", {"q": "((status=active;os.name=Ubuntu),status=pending);id>1"}, "005 010"),
    ("37", {"q": "status=active;(name=web-01,name=DB-01)"}, "001 003"),
    ("42", {"q": "name=win's"}, "004"),
    ("43", {"q": 'name="win\'s"'}, ""),
    ("44", {"q": "name=web%"}, ""),
    ("45", {"q": "name~w%1"}, "001 010"),
    ("46a", {"q": "name=mac 05"}, "005"),
    ("46b", {"q": "name= mac 05"}, ""),
    ("46c", {"q": "name=mac 05 "}, ""),
    ("51", {"search": "web"}, "001 002 010"),
    ("52", {"search": "-web"}, "000 003 004 005"),
    ("53", {"search": "001"}, "001"),
    ("54", {"search": "10.0.0.1"}, "001 002 010"),
    ("55", {"search": "-"}, ""),
    ("57", {"sort": "name"}, "003 000 005 001 002 010 004"),
    ("58", {"sort": "-name"}, "004 010 002 001 005 000 003"),
    ("59", {"sort": "os.version"}, "004 003 010 005 002 000 001"),
    ("61", {"sort": "-status,id"}, "005 004 002 010 003 001 000"),
]

REFUSED = [
    ("10", {"q": "id>=2"}, 1409),
    ("11", {"q": "status==active"}, 1409),
    ("22", {"q": "group<a"}, 1409),
    ("24 right", {"q": "group=default,web"}, 1407),
    ("28a", {"q": "lastKeepAlive<1w"}, 1412),
    ("28b", {"q": "lastKeepAlive=yesterday"}, 1412),
    ("38a right", {"q": "(status=active"}, 1407),
    ("38b right", {"q": "status=active)"}, 1407),
    ("39 right", {"q": "status=active;"}, 1407),
    ("40a", {"q": ";status=active"}, 1407),
    ("40b", {"q": "status"}, 1407),
    ("40c", {"q": "status="}, 1407),
    ("40d", {"q": "=active"}, 1407),
    ("41a", {"q": "foo=1"}, 1408),
    ("41b", {"q": "os.foo=1"}, 1408),
    ("41c internal", {"q": "internal_key~k"}, 1408),
    ("47 right", {"q": "name=web-01|x"}, 1407),
    ("60", {"sort": "os.name,-name"}, 1403),
    ("62a", {"sort": "NAME"}, 1403),
    ("62b", {"sort": "os"}, 1403),
    ("62c", {"sort": "-"}, 1403),
    ("62d", {"sort": ","}, 1403),
    ("65a", {"select": "os"}, 1724),
    ("65b", {"select": "foo"}, 1724),
    ("65c", {"select": "internal_key"}, 1724),
    ("76a", {"limit": 0}, 1406),
    ("76b", {"limit": 100001}, 1405),
]


@pytest.mark.parametrize(("parameters", "expected"), [pytest.param(p, e, id=number) for number, p, e in FOUND])
def test_found(agents: sa.Connection, parameters: dict[str, Any], expected: str) -> None:
    page = ask(agents, **parameters)
    assert ids(page) == expected
    assert page.total == len(expected.split())


@pytest.mark.parametrize(("parameters", "code"), [pytest.param(p, c, id=number) for number, p, c in REFUSED])
def test_refused(agents: sa.Connection, parameters: dict[str, Any], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        ask(agents, **parameters)
    assert caught.value.code == code


@pytest.mark.parametrize("q", ["name=web-01,name=web-02", "(name=web-01,name=web-02)"], ids=["48 right", "49"])
def test_q_is_one_unit_beside_a_filter(agents: sa.Connection, q: str) -> None:
    assert ids(ask(agents, q=q, restrict=equals(COLUMNS["status"], ["active"]))) == "001"


def test_50_right_q_never_reaches_beyond_the_restriction(agents: sa.Connection) -> None:
    assert ids(ask(agents, q="name=DB-01,name=web-01", restrict=AGENT.c.id.in_([10]))) == ""


def test_63_select_adds_the_required_field(agents: sa.Connection) -> None:
    assert ask(agents, select="name", limit=1).items == [{"id": "000", "name": "localhost"}]


def test_64_dotted_fields_are_nested(agents: sa.Connection) -> None:
    page = ask(agents, select="os.name,os.version", q="id<1,id=4")
    assert page.items == [{"id": "000", "os": {"name": "Ubuntu", "version": "22.04"}}, {"id": "004"}]


def test_66_group_is_an_array_or_absent(agents: sa.Connection) -> None:
    assert ask(agents, select="group", limit=2).items == [{"id": "000"}, {"id": "001", "group": ["web", "default"]}]


def test_67_distinct_rows_without_the_required_field(agents: sa.Connection) -> None:
    page = ask(agents, distinct=True, select="os.platform")
    assert page.items == [{"os": {"platform": name}} for name in ("ubuntu", "centos", "darwin")]
    assert page.total == 3


def test_68_distinct_over_all_fields_drops_rows_with_a_null(agents: sa.Connection) -> None:
    page = ask(agents, distinct=True, q="os.minor=null,group=null")
    assert (page.items, page.total) == ([], 0)


@pytest.mark.parametrize(("seconds", "expected"), [(3600, "002 004"), (7 * 86400, "004")], ids=["69", "70"])
def test_filters_of_the_caller(agents: sa.Connection, seconds: int, expected: str) -> None:
    edge = NOW.timestamp() - seconds
    never = AGENT.c.status == "never_connected"
    older = sa.or_(sa.and_(~never, AGENT.c.keepalive < edge), sa.and_(never, AGENT.c.registered < edge))
    assert ids(ask(agents, restrict=older)) == expected


@pytest.mark.parametrize(("wanted", "expected"), [([1, 999], "001"), ([999], "")], ids=["72", "73"])
def test_restriction_to_ids(agents: sa.Connection, wanted: list[int], expected: str) -> None:
    assert ids(ask(agents, restrict=AGENT.c.id.in_(wanted))) == expected


def test_75_page_beyond_the_end(agents: sa.Connection) -> None:
    page = ask(agents, offset=100)
    assert (page.items, page.total) == ([], 7)
