"""JSON text of answers: the same as that of the standard library."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.json_text import json_text

TEXTS = st.text() | st.text('\x00\x1f "\\/\x7f\x80é€\u2028\ud800\udfff😀', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | st.integers(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_the_text_is_that_of_the_standard_library(value: Any, pretty: bool) -> None:
    assert json_text(value, pretty=pretty) == json.dumps(value, indent=3 if pretty else None).encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_number(value: float) -> None:
    assert json.loads(json_text([value])) == [value]


def test_structs_and_dates_are_as_msgspec_has_them() -> None:
    class Item(msgspec.Struct):
        name: str | msgspec.UnsetType = msgspec.UNSET
        at: datetime = datetime(2026, 2, 3, tzinfo=UTC)

    expected = b'[{"at": "2026-02-03T00:00:00Z"}, {"huge": %d}]'
    assert json_text([Item(), {"huge": 2**80}]) == expected % 2**80


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError):
        json_text({"value": object()})
