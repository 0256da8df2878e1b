"""Columns of data sets: fields by the names of the tables' columns, and times in their three stored forms."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Integer, Numeric, Table, case, func, literal, select

from secmon.agents.registry.agent_fields import date_if_any
from secmon.common.clock import iso_z
from secmon.common.query.columns import Column, Kind

_AGENT_TIME = "[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]*"


def columns_of(table: Table, names: str) -> dict[str, Column]:
    """The fields ``names``, separated by blanks; ``a.b`` is the column ``a_b``."""
    return {name: plain(table.c[name.replace(".", "_")]) for name in names.split()}


def plain(stored: ColumnElement[Any]) -> Column:
    """A text or a number, as it is stored."""
    return Column(stored, Kind.NUMBER if isinstance(stored.type, Integer | Numeric) else Kind.TEXT)


def iso_text(stored: ColumnElement[Any]) -> ColumnElement[Any]:
    """A time as agents write it, ``YYYY/MM/DD hh:mm:ss``, as ISO 8601 in UTC; other text as it is."""
    iso = func.replace(func.substr(stored, 1, 10), "/", "-") + "T" + func.substr(stored, 12, 8) + "+00:00"
    return case((stored.op("GLOB")(_AGENT_TIME), iso), else_=stored)


def scan_time(stored: ColumnElement[Any]) -> Column:
    """The time of a scan as agents write it, which is compared as a date."""
    return Column(iso_text(stored), Kind.DATE, encode=_iso_second)


def epoch_time(stored: ColumnElement[Any]) -> Column:
    """Seconds since 1970; 0 is left out."""
    return Column(stored, Kind.DATE, render=date_if_any)


def _iso_second(moment: datetime) -> str:
    return iso_z(moment).replace("Z", "+00:00")


def among(column: ColumnElement[Any], agents: Sequence[int]) -> ColumnElement[bool]:
    """Whether ``column`` is one of ``agents``, however many there are."""
    if len(agents) == 1:
        return column == agents[0]
    numbers = func.json_each(literal(f"[{','.join(map(str, agents))}]")).table_valued("value")
    return column.in_(select(numbers.c.value))
