"""JSON bodies: their faults in the words of conventions.md 2.1."""

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from secmon.cluster.parameters import Names, ParameterError
from secmon.operations.bodies import TOO_LONG, read_body


class Part(Struct, forbid_unknown_fields=True):
    name: Names
    kind: Literal["b", "a"] = "a"


class Body(Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=9)]
    on: bool = False
    note: Annotated[str, Meta(min_length=2, max_length=4)] | None = None
    password: str = ""
    parts: Annotated[list[Part], Meta(max_length=2, extra={TOO_LONG: "Too many parts"})] = []
    more: dict[str, list[int]] = {}


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        (b'{"zzz": 1, "size": 1}', "Invalid field found {'zzz'}"),
        (b'{"size": 1, "parts": [{"name": "a", "zzz": 1}]}', "Invalid field found {'zzz'}"),
        (b"", "'' is not of type 'object'"),
        (b"{nope", "'{nope' is not of type 'object'"),
        (b'{"size": 1', "'{\"size\": 1' is not of type 'object'"),
        (b"[1, {", "'[1, {' is not of type 'object'"),
        (b"\xff\xfe", "'\ufffd\ufffd' is not of type 'object'"),
        (b" null ", "Request body is not valid JSON"),
        (b"[]", "[] is not of type 'object'"),
        (b"{}", "'size' is a required property"),
        (b'{"size": "x"}', "'x' is not of type 'integer' - 'size'"),
        (b'{"size": 1, "on": 1}', "1 is not of type 'boolean' - 'on'"),
        (b'{"size": 1, "note": 1}', "1 is not of type 'string' - 'note'"),
        (b'{"size": 1, "note": "x"}', "'x' is too short - 'note'"),
        (b'{"size": 1, "note": "xxxxx"}', "'xxxxx' is too long - 'note'"),
        (b'{"size": 0}', "0 is less than the minimum of 1 - 'size'"),
        (b'{"size": 10}', "10 is greater than the maximum of 9 - 'size'"),
        (b'{"size": 1, "parts": "x"}', "'x' is not of type 'array' - 'parts'"),
        (b'{"size": 1, "parts": [{"name": "a"}, {}]}', "'name' is a required property - 'parts.1'"),
        (b'{"size": 1, "parts": [{"name": "a b"}]}', "'a b' is not a 'names' - 'parts.0.name'"),
        (b'{"size": 1, "parts": [{"name": "a", "kind": "x"}]}', "'x' is not one of ['a', 'b'] - 'parts.0.kind'"),
        (b'{"size": 1, "password": 7}', "'****' is not of type 'string' - 'password'"),
        (b'[{"password": "x"}]', "[{'password': '****'}] is not of type 'object'"),
    ],
)
def test_bodies_that_do_not_fit(raw: bytes, detail: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_body(raw, Body)
    assert (str(caught.value), caught.value.title) == (detail, "Bad Request")


def test_a_huge_value_is_cut() -> None:
    with pytest.raises(ParameterError) as caught:
        read_body(json.dumps({"size": ["x" * 100] * 10_000}).encode(), Body)
    assert len(str(caught.value)) < 300
    assert str(caught.value).endswith("is not of type 'integer' - 'size'")


def test_a_problem_with_its_own_title() -> None:
    with pytest.raises(ParameterError, match=r"is too long - 'parts'") as caught:
        read_body(b'{"size": 1, "parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}', Body)
    assert caught.value.title == "Too many parts"


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"auth": ' + b"[" * 100_000])
def test_a_body_nested_without_limit_is_refused(raw: bytes) -> None:
    with pytest.raises(ParameterError, match="is not of type 'object'"):
        read_body(raw, dict[str, Any])


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["size", "name", "parts", "more", "note", "a.b", "[0]"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(_values)
def test_any_body_is_read_or_refused_in_one_line(value: Any) -> None:
    try:
        text = str(read_body(json.dumps(value).encode(), Body))
    except ParameterError as error:
        text = str(error)
    assert text
    assert "regex" not in text
