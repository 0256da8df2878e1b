"""The worked examples of conventions.md 5.9, asked of the agents as the store keeps them, the manager beside them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from secmon.agents.registry.agent_fields import FIELDS, Condition, in_scope, manager_row, older_than, with_value
from secmon.agents.registry.queries import read_page
from secmon.agents.wire.keepalive import System
from secmon.common.errors import SecmonError
from secmon.common.query import Page, Query
from secmon.common.query.dates import Age
from secmon.security.rbac.evaluate import Scope
from tests.agents.rows import Row, agent, database, put
from tests.common.query.agents import NOW, ROWS, ids
from tests.common.query.test_examples_sql import FOUND, REFUSED

OWN_VERSION = ("12", "14")
"""Examples in which the manager's version begins with another name than ours."""

_RENAMED = {"status": "connection_status", "members": "group", "registered": "date_add", "keepalive": "last_keepalive"}
SYSTEM = System(os_name="Ubuntu", os_version="22.04", os_platform="ubuntu", os_major="22", os_minor="04")
MANAGER = manager_row("node01", host="localhost", system=SYSTEM, created=int(NOW.timestamp()) - 21600)


def row(sample: Mapping[str, Any]) -> Row:
    values = {_RENAMED.get(name, name): value for name, value in sample.items()}
    return agent(values.pop("id"), **values)


@pytest.fixture(scope="module")
def store() -> Iterator[sa.Connection]:
    with database() as connection:
        put(connection, [row(sample) for sample in ROWS if sample["id"]])
        yield connection


def ask(store: sa.Connection, *where: Condition, **parameters: Any) -> Page:
    query = Query.parse(fields=FIELDS, **parameters)
    return read_page(store, query, now=NOW, where=where, manager=MANAGER)


@pytest.mark.parametrize(
    ("parameters", "expected"), [pytest.param(p, e, id=number) for number, p, e in FOUND if number not in OWN_VERSION]
)
def test_found(store: sa.Connection, parameters: dict[str, Any], expected: str) -> None:
    page = ask(store, **parameters)
    assert ids(page) == expected
    assert page.total == len(expected.split())


@pytest.mark.parametrize(("parameters", "code"), [pytest.param(p, c, id=number) for number, p, c in REFUSED])
def test_refused(store: sa.Connection, parameters: dict[str, Any], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        ask(store, **parameters)
    assert caught.value.code == code


@pytest.mark.parametrize("q", ["name=web-01,name=web-02", "(name=web-01,name=web-02)"], ids=["48 right", "49"])
def test_q_is_one_unit_beside_a_filter(store: sa.Connection, q: str) -> None:
    assert ids(ask(store, with_value("status", "active"), q=q)) == "001"


def test_50_right_q_never_reaches_beyond_the_restriction(store: sa.Connection) -> None:
    assert ids(ask(store, in_scope(Scope(frozenset({"010"}))), q="name=DB-01,name=web-01")) == ""


@pytest.mark.parametrize(("seconds", "expected"), [(3600, "002 004"), (7 * 86400, "004")], ids=["69", "70"])
def test_older_than(store: sa.Connection, seconds: int, expected: str) -> None:
    assert ids(ask(store, older_than(Age(seconds), NOW))) == expected


def test_67_distinct_rows_without_the_required_field(store: sa.Connection) -> None:
    page = ask(store, distinct=True, select="os.platform")
    assert page.items == [{"os": {"platform": name}} for name in ("ubuntu", "centos", "darwin")]
    assert page.total == 3


def test_68_distinct_over_all_fields_drops_rows_with_a_null(store: sa.Connection) -> None:
    page = ask(store, distinct=True)
    assert (page.items, page.total) == ([], 0)


def test_75_page_beyond_the_end(store: sa.Connection) -> None:
    page = ask(store, offset=100)
    assert (page.items, page.total) == ([], 7)
