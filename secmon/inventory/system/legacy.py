"""The inventory of agents before 4.2: whole scans, each with a number (docs/reference/agent-data.md 4.7)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam

from secmon.inventory.changes import Changes
from secmon.inventory.components import LEGACY
from secmon.inventory.message import MalformedMessage
from secmon.inventory.system import data_sets as sets
from secmon.inventory.system.data_sets import DataSet
from secmon.inventory.system.rows import converted_row, key_of, named, reference
from secmon.inventory.values import integer, text

_SINGLE: Mapping[str, DataSet] = {"hardware": sets.HARDWARE, "OS": sets.OPERATING_SYSTEMS}
"""Messages with the only row of a table."""
_ROWS: Mapping[str, DataSet] = {"port": sets.PORTS, "program": sets.PACKAGES, "process": sets.PROCESSES}
"""Messages with one row, in a member that has the name of the type."""
_ENDS: Mapping[str, tuple[DataSet, ...]] = {
    "network_end": (sets.NETWORK_INTERFACES, sets.NETWORK_PROTOCOLS, sets.NETWORK_ADDRESSES),
    "port_end": (sets.PORTS,),
    "program_end": (sets.PACKAGES,),
    "hotfix_end": (sets.HOTFIXES,),
    "process_end": (sets.PROCESSES,),
}
"""Messages at the end of a scan: rows of earlier scans are deleted."""
_STATISTICS = {"OS": "osinfo", "network": "netinfo", "program": "package"}
"""Names in the statistics, where they are not those of the types."""
_ADDRESSES = 1000
"""Addresses of an interface that are stored."""


def save_legacy(kind: str, agent: int, body: Mapping[str, Any], changes: Changes) -> None:
    """Save the rows of a message of type ``kind``, or delete those of earlier scans. Raises MalformedMessage."""
    scan = integer(body.get("ID"))
    if scan is None:
        raise MalformedMessage("ID is missing")
    name = kind.removesuffix("_end")
    changes.kind = _STATISTICS.get(name, name)
    if kind in _ENDS:
        for data_set in _ENDS[kind]:
            changes.delete(data_set.table, agent, data_set.table.c.scan_id != bindparam("scan"), scan=scan)
        return
    common = {"agent_id": agent, "scan_id": scan, "scan_time": text(body.get("timestamp")), "checksum": LEGACY}
    rows = [(data_set, _row(data_set, members) | common) for data_set, members in _members(kind, body)]
    for data_set, row in rows:
        if kind in _SINGLE:
            table = data_set.table
            changes.delete(table, agent, table.c[data_set.key] != bindparam("key"), key=row[data_set.key])
        changes.save(data_set.table, row)


def _row(data_set: DataSet, data: Mapping[str, Any]) -> dict[str, Any]:
    members = named(data_set, data)
    row = converted_row(data_set, members, strict=False) | {data_set.key: key_of(data_set, members)}
    if not all(row[column] for column in data_set.required):
        raise MalformedMessage("what identifies the row is missing")
    if data_set is sets.OPERATING_SYSTEMS:
        row["reference"] = reference(row)
    return row


def _members(kind: str, body: Mapping[str, Any]) -> Iterator[tuple[DataSet, Mapping[str, Any]]]:
    """The rows of a message: their sets and members. Raises MalformedMessage."""
    if kind in _SINGLE:
        yield _SINGLE[kind], _object(body, "inventory")
    elif kind == "process":
        process = _object(body, kind)
        arguments = process.get("argvs")
        if isinstance(arguments, list):
            process |= {"argvs": " ".join(filter(None, map(text, arguments)))}
        yield sets.PROCESSES, process
    elif kind in _ROWS:
        yield _ROWS[kind], _object(body, kind)
    elif kind == "hotfix":
        yield sets.HOTFIXES, body
    elif kind == "network":
        yield from _interface(_object(body, "iface"))
    else:
        raise MalformedMessage("the type of the message is not known")


def _interface(iface: Mapping[str, Any]) -> Iterator[tuple[DataSet, Mapping[str, Any]]]:
    """The rows of an interface, of its protocols and of their addresses."""
    yield sets.NETWORK_INTERFACES, iface
    for member, protocol in (("IPv4", "ipv4"), ("IPv6", "ipv6")):
        found = iface.get(member)
        if not isinstance(found, dict):
            continue
        name = iface.get("name")
        yield sets.NETWORK_PROTOCOLS, {**found, "iface": name, "type": protocol}
        masks, broadcasts = _list(found, "netmask"), _list(found, "broadcast")
        for place, address in enumerate(_list(found, "address")[:_ADDRESSES]):
            mask, broadcast = ("".join(map(str, one[place : place + 1])) for one in (masks, broadcasts))
            address_row = {"iface": name, "proto": protocol, "address": address, "netmask": mask}
            yield sets.NETWORK_ADDRESSES, address_row | {"broadcast": broadcast}


def _list(found: Mapping[str, Any], member: str) -> Sequence[Any]:
    value = found.get(member)
    return value if isinstance(value, list) else []


def _object(body: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = body.get(member)
    if not isinstance(value, dict):
        raise MalformedMessage(f"{member} is missing")
    return value
