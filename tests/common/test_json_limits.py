"""Values that travel between nodes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.json_limits import MAX_DEPTH, json_problem


def nested(depth: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_depth(kind: type) -> None:
    assert json_problem(nested(MAX_DEPTH, kind)) is None
    for depth in (MAX_DEPTH + 1, 900, 5000):
        assert json_problem(nested(depth, kind)) == "is nested deeper than 200"


@pytest.mark.parametrize(
    ("number", "fits"), [(2**64 - 1, True), (2**64, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_integers(number: int, fits: bool) -> None:
    assert (json_problem({"a": [number]}) is None) is fits


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner:
       st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))  # fmt: skip
def test_what_is_let_through_comes_back(value: Any) -> None:
    if json_problem(value) is None:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value
