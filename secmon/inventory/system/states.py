"""Rows that agents send while they synchronize the system inventory (docs/reference/agent-data.md 2.2, 4.5)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table, bindparam

from secmon.inventory.changes import Changes
from secmon.inventory.message import MalformedMessage
from secmon.inventory.system.data_sets import DATA_SETS, OPERATING_SYSTEMS, DataSet
from secmon.inventory.system.rows import converted_row, key_of, named, reference

_BY_TABLE: Mapping[Table, DataSet] = {data_set.table: data_set for data_set in DATA_SETS}


def save_state(table: Table, agent: int, data: Mapping[str, Any], changes: Changes) -> None:
    """Save the row of a state. One without its identity removes the stored row of its name instead.

    Raises MalformedMessage.
    """
    data_set, attributes, index = _BY_TABLE[table], data.get("attributes"), data.get("index")
    if not isinstance(attributes, dict):
        raise MalformedMessage("attributes are missing")
    members = named(data_set, attributes)
    key = key_of(data_set, members, index if isinstance(index, str) else None)
    row = converted_row(data_set, members, strict=False)
    if not row["checksum"]:
        raise MalformedMessage("checksum is missing")
    row |= {"agent_id": agent, "scan_id": 0, data_set.key: key}
    if not all(row[column] for column in data_set.required):
        changes.delete(table, agent, table.c[data_set.key] == bindparam("key"), key=key)
        return
    row |= {column: value for column, value in data_set.defaults.items() if row[column] is None}
    if data_set is OPERATING_SYSTEMS:
        row["reference"] = reference(row)
        changes.delete(table, agent, table.c.os_name != bindparam("key"), key=key)
    changes.save(table, row)
