"""Rows of the system inventory from the members of messages (docs/reference/agent-data.md 4.3 to 4.5, 12)."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from secmon.inventory.message import MalformedMessage
from secmon.inventory.system.data_sets import NETWORK_ADDRESSES, DataSet
from secmon.inventory.values import integer, is_number, real, text

Members = Mapping[str, Any]
"""Members of a message by their names, as :func:`named` gives them."""

_NEVER_NULL = ("format", "location")
_DHCP = (None, "enabled", "disabled", "unknown", "BOOTP")
_HIGHEST_SHARE = 100
_CONVERSIONS: Mapping[type, Callable[[object], object]] = {str: text, int: integer, float: real}
_UNSTORED = {"metric", "dhcp"}
_REFERENCE = (
    *("architecture", "os_name", "os_version", "os_codename", "os_major", "os_minor", "os_patch", "os_build"),
    *("os_platform", "sysname", "release", "version", "os_release"),
)


class _Source(NamedTuple):
    """Where a column has its value from: the member, ``others`` of its names, the type, and how it is converted."""

    column: str
    name: str
    others: tuple[str, ...]
    kind: type[str | int | float]
    convert: Callable[[object], object]


def named(data_set: DataSet, data: Mapping[str, Any]) -> Members:
    """The members by their names in small letters: some agents write ``cpu_MHz`` (agent-data.md 12)."""
    return data if data.keys() <= _names(data_set) else {name.lower(): value for name, value in data.items()}


def converted_row(data_set: DataSet, members: Members, *, strict: bool) -> dict[str, Any]:
    """The columns that ``members`` give, but for the agent, the scan and the key.

    ``strict``, for deltas: a value of a wrong type makes the row invalid, and a missing number is 0. Otherwise both are
    null. An empty text is null. Raises MalformedMessage.
    """
    row: dict[str, Any] = {}
    for column, name, others, kind, convert in _sources(data_set):
        value = members.get(name)
        if value is None and others:
            value = next((members[other] for other in others if other in members), None)
        if type(value) is kind is str:  # nearly all values
            row[column] = value or None
            continue
        found = convert(value)
        if strict and found is None:
            if value is not None:
                raise MalformedMessage(f"{column} has a value of a wrong type")
            found = None if kind is str else 0
        row[column] = None if found == "" else found
    _complete(data_set, row)
    return row


def key_of(data_set: DataSet, members: Members, index: str | None = None) -> str:
    """The name of the row in ranges: its own member, the ``index`` of the state, or the hash of its identity.

    Raises MalformedMessage.
    """
    key = data_set.key
    found = text(members.get(key)) or index or ""
    if key == "item_id":
        return found or item_id(data_set, members)
    if key in data_set.required and not found:
        raise MalformedMessage(f"{key} is missing")
    if key == "pid" and found.startswith("-"):
        raise MalformedMessage("pid is negative")
    return found


def item_id(data_set: DataSet, members: Members) -> str:
    """The hash by which agents name a row (agent-data.md 4.4)."""
    values = {name: text(members.get(name)) or "" for name in data_set.identity}
    if data_set is NETWORK_ADDRESSES:
        values["proto"] = {"ipv4": "0", "ipv6": "1"}.get(values["proto"], values["proto"])
    return hashlib.sha1("".join(values.values()).encode(), usedforsecurity=False).hexdigest()


def _complete(data_set: DataSet, row: dict[str, Any]) -> None:
    """The rules of single columns. Raises MalformedMessage."""
    for column in data_set.positive:
        if row[column] is not None and row[column] <= 0:
            row[column] = None
    for column in data_set.unsigned:
        if row[column] is not None and row[column] < 0:
            row[column] = None
    for column in _NEVER_NULL:
        if column in row and row[column] is None:
            row[column] = ""
    if (row.get("ram_usage") or 0) > _HIGHEST_SHARE:
        row["ram_usage"] = None
    if row.get("dhcp") not in _DHCP:
        raise MalformedMessage("dhcp has an unknown value")


def reference(row: Mapping[str, Any]) -> str:
    """The identity of an operating system (agent-data.md 4.3)."""
    known = "".join(row[name] or "" for name in _REFERENCE)
    return hashlib.sha1(known.encode(), usedforsecurity=False).hexdigest()


def protocol(value: object) -> str | None:
    """``ipv4`` or ``ipv6`` from a number, as agents send it; a text as it is."""
    if is_number(value):
        return "ipv6" if value else "ipv4"
    return text(value)


@cache
def _sources(data_set: DataSet) -> tuple[_Source, ...]:
    found = []
    for column in data_set.table.columns:
        if column.name in ("agent_id", "scan_id", "reference", data_set.key):
            continue
        kind = column.type.python_type
        convert: Callable[[object], object] = _CONVERSIONS[kind]
        if column is NETWORK_ADDRESSES.table.c.proto:
            convert = protocol
        found.append(_Source(column.name, column.name, data_set.names.get(column.name, ()), kind, convert))
    return tuple(found)


@cache
def _names(data_set: DataSet) -> frozenset[str]:
    """The names that members of current agents have."""
    return frozenset({*data_set.table.columns.keys(), *sum(data_set.names.values(), ()), *_UNSTORED})
