"""Values of messages as the store takes them."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.inventory.values import MAX_INTEGER, integer, real, text

JSON_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.from_regex(r"[+-]?[0-9]{1,40}", fullmatch=True)
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4711, 4711),
        ("4711", 4711),
        ("-5", -5),
        ("007", 7),
        ("18446744073709551615", MAX_INTEGER),
        (18446744073709551615, MAX_INTEGER),
        ("-9223372036854775808", -MAX_INTEGER - 1),
        ("-" + "9" * 5000, -MAX_INTEGER - 1),
        ("0" * 40 + "12", 12),
        (1e300, MAX_INTEGER),
        (2.9, 2),
        (float("nan"), None),
        (True, 1),
        ("1_000", None),
        (" 5", None),
        ("٣", None),
        ("", None),
        (None, None),
        ([], None),
    ],
)
def test_integers(value: object, expected: int | None) -> None:
    assert integer(value) == expected


def test_reals_and_texts() -> None:
    numbers: list[object] = [2, "2.5", "", "nan", 10**400, None, 1e300]
    assert [real(value) for value in numbers] == [2, 2.5, None, None, None, None, 1e300]
    values: list[object] = ["x", 5, 2.5, True, None, {}]
    assert [text(value) for value in values] == ["x", "5", "2.5", None, None, None]


@given(JSON_VALUES)
def test_the_store_takes_every_value(value: object) -> None:
    found = integer(value), real(value), text(value)
    with sqlite3.connect(":memory:") as connection:
        assert connection.execute("SELECT ?, ?, ?", found).fetchone() == found
