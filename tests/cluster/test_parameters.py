"""Parameters read from text (conventions.md 2.1, 3, 4)."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from secmon.cluster.parameters import (
    Listing,
    Names,
    NoParams,
    ParameterError,
    build,
    describe,
    read_text,
)


class Query(Listing, frozen=True, kw_only=True):
    node_id: Names
    type: Literal["worker", "master"] | None = None
    nodes_list: list[Names] | None = None
    numbers: list[int] | None = None
    short: Annotated[str, Meta(min_length=2)] | None = None
    needed: str


PARAMETERS = describe(Query, "/x/{node_id}")


def read(*query: tuple[str, str], node_id: str = "n1", needed: str | None = "yes") -> dict[str, Any]:
    pairs = [*query, ("needed", needed)] if needed is not None else list(query)
    return read_text(PARAMETERS, pairs, {"node_id": node_id})


def test_values_take_their_types() -> None:
    values = read(("limit", "7"), ("pretty", "TRUE"), ("select", "a,b"), ("select", "c"), ("type", "Worker"))
    query = build(Query, values)
    assert build(Query, read(("numbers", "1,22"))).numbers == [1, 22]
    assert (query.limit, query.pretty, query.select, query.type) == (7, True, ["a", "b", "c"], "worker")


def test_a_blank_value_is_absent_even_of_an_unknown_name() -> None:
    assert read(("foo", ""), ("limit", "")) == {"needed": "yes", "node_id": "n1"}


def test_of_a_repeated_scalar_the_last_counts() -> None:
    assert read(("limit", "3"), ("limit", "4"))["limit"] == 4


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("foo", "1", "Extra query parameter(s) foo not in spec"),
        ("Limit", "1", "Extra query parameter(s) Limit not in spec"),
        ("limit", "x", "Wrong type, expected 'integer' for query parameter 'limit'"),
        ("limit", "1.5", "Wrong type, expected 'integer' for query parameter 'limit'"),
        ("limit", "١", "Wrong type, expected 'integer' for query parameter 'limit'"),
        ("pretty", "1", "Wrong type, expected 'boolean' for query parameter 'pretty'"),
        ("limit", "0", "0 is less than the minimum of 1"),
        ("limit", "100001", "100001 is greater than the maximum of 100000"),
        ("offset", "-1", "-1 is less than the minimum of 0"),
        ("type", "other", "'other' is not one of ['master', 'worker']"),
        ("numbers", "1,x", "'x' is not of type 'integer'. On instance[1]"),
        ("nodes_list", "a b", "'a b' is not a 'names'. On instance[0]"),
        ("nodes_list", "a,", "'' is not a 'names'. On instance[1]"),
        ("nodes_list", "a\n", "is not a 'names'"),
        ("search", "a;b", "is not a 'search'"),
        ("short", "x", "'x' is too short"),
        ("q", "a\0b", "NUL"),
    ],
)
def test_faults_are_named(name: str, value: str, detail: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read((name, value))
    assert detail in str(caught.value)


def test_a_required_parameter_is_missed() -> None:
    with pytest.raises(ParameterError, match="Missing query parameter 'needed'"):
        read(needed=None)


def test_the_path_is_checked_after_the_query() -> None:
    with pytest.raises(ParameterError, match="limit"):
        read(("limit", "x"), node_id="a b")
    with pytest.raises(ParameterError, match="names"):
        read(node_id="a b")


def test_an_operation_without_parameters_ignores_them() -> None:
    assert read_text(describe(NoParams, "/x"), [("foo", "1")], {}) == {}


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 4000, "0" * 30 + "9" * 25])
def test_integers_of_any_size_are_integers(digits: str) -> None:
    values = read(("offset", digits))
    assert build(Query, msgspec.msgpack.decode(msgspec.msgpack.encode(values))).offset > 2**63
    with pytest.raises(ParameterError, match="is greater than the maximum of 100000"):
        read(("limit", digits))
    with pytest.raises(ParameterError, match="is less than the minimum of 0"):
        read(("offset", "-" + digits))
    with pytest.raises(ParameterError, match=r"is greater than the maximum of .*\[1\]"):
        read(("numbers", f"1,{digits}"))


@given(st.lists(st.tuples(st.sampled_from([p.wire for p in PARAMETERS] + ["zz"]), st.text(max_size=12))), st.text())
def test_any_text_is_read_or_refused(query: list[tuple[str, str]], node_id: str) -> None:
    try:
        values = read_text(PARAMETERS, query, {"node_id": node_id})
    except ParameterError:
        return
    assert build(Query, values).node_id == node_id
