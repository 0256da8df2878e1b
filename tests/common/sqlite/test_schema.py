"""Columns of rows that come from other releases."""

import pytest
from sqlalchemy import Boolean, Column, Integer, Text, text

from secmon.common.sqlite.schema import default_of


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("a", Text), None),
        (Column("a", Text, nullable=False, server_default="blue"), "blue"),
        (Column("a", Text, server_default="blue"), "blue"),
        (Column("a", Integer, nullable=False, server_default="7"), 7),
    ],
)
def test_a_missing_column_has_its_default(column: Column[object], value: object) -> None:
    assert default_of(column) == value


@pytest.mark.parametrize(
    "column",
    [Column("a", Text, nullable=False), Column("a", Text, nullable=False, server_default=text("CURRENT_TIMESTAMP"))],
)
def test_a_column_without_a_default_is_not_invented(column: Column[object]) -> None:
    with pytest.raises(LookupError, match="a"):
        default_of(column)


def test_a_boolean_default() -> None:
    assert default_of(Column("a", Boolean, nullable=False, server_default="1")) is True
    assert default_of(Column("a", Boolean, nullable=False, server_default="0")) is False
