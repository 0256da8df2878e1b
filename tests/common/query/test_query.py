"""Parameters against the declaration of the collection."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.query import Fields, Query, Search, Sort
from secmon.common.query.syntax import MAX_LENGTH

LIST = Fields(engine="list", select=("id", "name", "details"), sort=("id", "name"), required=("id",))
FREE = Fields(engine="list")
PLAIN = Fields(engine="list", select=(), sort=())
SQL = Fields(engine="sql", select=("id", "os.name", "seen"), dates=("seen",))


def test_absent_and_empty_parameters_are_the_defaults() -> None:
    assert Query.parse(fields=LIST) == Query()
    assert Query.parse(fields=LIST, q="", sort="", search="", select="") == Query()
    assert Query.parse(fields=LIST, select=[]) == Query()


@pytest.mark.parametrize(
    ("text", "fields", "sort"),
    [
        ("name", LIST, Sort(("name",))),
        ("+name,id", LIST, Sort(("name", "id"))),
        ("-name,id,name", LIST, Sort(("name", "id"), descending=True)),
        ("-", LIST, Sort((), descending=True)),
        ("+", PLAIN, Sort(())),
        ("-os.name", SQL, Sort(("os.name",), descending=True)),
        ("anything", FREE, Sort(("anything",))),
    ],
)
def test_sort(text: str, fields: Fields, sort: Sort) -> None:
    assert Query.parse(fields=fields, sort=text).sort == sort


def test_search() -> None:
    assert Query.parse(fields=LIST, search="-x").search == Search("x", negate=True)
    assert Query.parse(fields=LIST, search="--x").search == Search("-x", negate=True)
    assert Query.parse(fields=LIST, search="x-").search == Search("x-")


def test_select_takes_a_comma_list_or_its_parts_once_each() -> None:
    for select in ("name,id,name", ["name", "id", "name"]):
        assert Query.parse(fields=LIST, select=select).select == ("name", "id")
    assert Query.parse(fields=LIST, select="details.x.y,unknown.z").select == ("details.x.y", "unknown.z")
    assert Query.parse(fields=FREE, select="whatever").select == ("whatever",)


@pytest.mark.parametrize(
    ("fields", "parameters", "code", "named"),
    [
        (LIST, {"offset": -1}, 1400, "-1"),
        (LIST, {"limit": -1}, 1401, "-1"),
        (LIST, {"sort": "name,-id"}, 1403, "-id"),
        (LIST, {"sort": " name"}, 1403, " name"),
        (LIST, {"sort": "name,"}, 1403, "sortable: id, name"),
        (LIST, {"sort": "--name"}, 1403, "-name"),
        (PLAIN, {"sort": "name"}, 1403, "sortable: none"),
        (SQL, {"sort": "+"}, 1403, "os.name"),
        (SQL, {"sort": "os"}, 1403, "os.name"),
        (SQL, {"offset": 2**63 - 500}, 2003, "the offset is greater than the maximum of 9223372036854775307"),
        (SQL, {"offset": 10**30}, 2003, "the offset is greater"),
        (SQL, {"select": "os"}, 1724, "selectable: id, os.name"),
        (SQL, {"select": "os.foo"}, 1724, "os.foo"),
        (SQL, {"q": "id=1;name=x"}, 1408, "valid: id, os.name"),
        (SQL, {"q": "name=all"}, 1408, "name"),
        (SQL, {"q": "seen<1h30"}, 1411, "1h30"),
        (SQL, {"q": "seen<1d5x"}, 1411, "1d5x"),
        (SQL, {"q": "id=1,seen<1x"}, 1412, "1x"),
        (SQL, {"search": "x" * (MAX_LENGTH + 1)}, 1407, "search"),
        (SQL, {"search": "\ud800"}, 1407, "search"),
    ],
)
def test_refused(fields: Fields, parameters: dict[str, Any], code: int, named: str) -> None:
    with pytest.raises(SecmonError) as caught:
        Query.parse(fields=fields, **parameters)
    assert caught.value.code == code
    assert named in (caught.value.extra or "")


def test_the_sql_engine_must_declare_its_fields() -> None:
    with pytest.raises(ValueError, match="fields"):
        Fields(engine="sql")


@given(
    st.sampled_from([LIST, FREE, PLAIN, SQL]),
    st.text("id,name.os+- ~=seen19dhm\ud800", max_size=12),
    st.sampled_from(["q", "sort", "search", "select"]),
)
def test_no_text_raises_anything_but_a_known_error(fields: Fields, text: str, name: str) -> None:
    parameters: dict[str, Any] = {name: text}
    try:
        Query.parse(fields=fields, **parameters)
    except SecmonError as error:
        assert error.code in (1403, 1407, 1408, 1409, 1411, 1412, 1724)  # noqa: PT017 - the property itself
