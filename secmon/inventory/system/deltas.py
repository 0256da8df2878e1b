"""Messages of the system inventory, type ``d`` (docs/reference/agent-data.md 4.2, 4.5)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam

from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import DecodedEvent, event_of
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.system.data_sets import DATA_SETS, NETWORK_ADDRESSES, OPERATING_SYSTEMS, DataSet
from secmon.inventory.system.legacy import save_legacy
from secmon.inventory.system.rows import Members, converted_row, key_of, named, protocol, reference
from secmon.inventory.values import is_number

_SOURCE = "syscollector"
_DECODER = "syscollector"
_BY_DELTA: Mapping[str, DataSet] = {data_set.delta: data_set for data_set in DATA_SETS}


def store_inventory(message: AgentMessage, changes: Changes) -> None:
    """Stores a delta, or a message of an old agent. Raises MalformedMessage."""
    if message.source != _SOURCE:
        raise MalformedMessage(f"it is not from {_SOURCE}")
    body = message.json()
    kind = body.get("type")
    if not isinstance(kind, str):
        raise MalformedMessage("type is missing")
    if data_set := _BY_DELTA.get(kind):
        _store_delta(data_set, message, body, changes)
    else:
        save_legacy(kind, message.agent, body, changes)


def _store_delta(data_set: DataSet, message: AgentMessage, body: Mapping[str, Any], changes: Changes) -> None:
    operation, data = body.get("operation"), body.get("data")
    if not isinstance(data, dict):
        raise MalformedMessage("data is missing")
    members = named(data_set, data)
    if operation == "DELETED":
        table = data_set.table
        key = key_of(data_set, members)
        changes.delete(table, message.agent, table.c[data_set.key] == bindparam("key"), key=key)
    elif operation in ("INSERTED", "MODIFIED"):
        changes.save(data_set.table, _row(data_set, message.agent, members))
    else:
        raise MalformedMessage("operation is not known")
    changes.report(_event(data_set, message, operation, members))


def _row(data_set: DataSet, agent: int, members: Members) -> Mapping[str, Any]:
    row = converted_row(data_set, members, strict=True)
    if not row["checksum"]:
        raise MalformedMessage("checksum is missing")
    if data_set is OPERATING_SYSTEMS:
        row["reference"] = reference(row | {"os_name": key_of(data_set, members)})
    return row | {"agent_id": agent, "scan_id": 0, data_set.key: key_of(data_set, members)}


def _event(data_set: DataSet, message: AgentMessage, operation: str, members: Members) -> DecodedEvent:
    """The event of a delta (agent-data.md 4.6, newer-versions.md 3.4)."""
    fields = [("type", data_set.delta), ("operation_type", operation)]
    for name in data_set.fields.split():
        field, _, column = name.partition("=")
        fields.append((data_set.prefix + field, _field(data_set, column or field, members)))
    return event_of(message, _DECODER, fields, message.body)


def _field(data_set: DataSet, column: str, members: Members) -> str:
    """A value as text: integers in decimal, other numbers with six decimals; nothing where there is none."""
    names = (column, *data_set.names.get(column, ()))
    value = next((members[name] for name in names if name in members), None)
    if data_set is NETWORK_ADDRESSES and column == "proto":
        return protocol(value) or ""
    if is_number(value):
        return str(value) if isinstance(value, int) else f"{value:.6f}"
    return value if isinstance(value, str) else ""
