"""Messages of file integrity (type ``8``; docs/reference/agent-data.md 3.1, 3.2, 3.8)."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy.dialects.sqlite import insert

from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import event_of
from secmon.inventory.integrity.alert_fields import alert_fields, decoder_of
from secmon.inventory.integrity.alert_text import alert_text
from secmon.inventory.integrity.entries import entry_key, entry_row
from secmon.inventory.integrity.integrity_event import IntegrityEvent, read_event
from secmon.inventory.message import AgentMessage, MalformedMessage, UnsupportedMessage
from secmon.inventory.schema import fim_entries, fim_scans
from secmon.inventory.values import integer, is_number

log = logging.getLogger("secmon.db")

_LEGACY = re.compile(r"syscheck-db-completed|fim-db-(?:start|end)-|(?:-1|[0-9]+:)\S* ")
"""How the texts of agents before 3.11 begin (agent-data.md 3.8)."""
_SCANS = {"scan_start": "start_scan", "scan_end": "end_scan"}
"""Columns by type of message."""
_TYPE = fim_entries.c.type == bindparam("type")
_KEY = fim_entries.c.full_path == bindparam("key")


def handle_integrity(message: AgentMessage, changes: Changes) -> None:
    """Store what changed, and pass it on to the rules. Raises MalformedMessage, UnsupportedMessage."""
    if _LEGACY.match(message.body):
        raise UnsupportedMessage("its agent is older than 3.11")
    body = message.json()
    kind, data = body.get("type"), body.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise MalformedMessage("type or data is missing")
    if kind == "event":
        event = read_event(data)
        changes.report(event_of(message, decoder_of(event), alert_fields(event), alert_text(event)))
        _store(message, event, changes)
    elif kind in _SCANS:
        _scan(message.agent, _SCANS[kind], data, changes)


def _store(message: AgentMessage, event: IntegrityEvent, changes: Changes) -> None:
    """Save or delete the row. An event without what a row needs is for the rules only."""
    try:
        if event.change == "deleted":
            key = entry_key(event.data, event.type)
            changes.delete(fim_entries, message.agent, _TYPE, _KEY, type=event.type, key=key)
        elif row := entry_row(message.agent, event.data):
            changes.save(fim_entries, row)
    except MalformedMessage as error:
        log.debug("A change that agent %03d reports is not stored: %s", message.agent, error)


def _scan(agent: int, column: str, data: Mapping[str, Any], changes: Changes) -> None:
    timestamp = data.get("timestamp")
    if not is_number(timestamp):
        raise MalformedMessage("timestamp is not a number")
    row = dict.fromkeys(_SCANS.values(), 0) | {"agent_id": agent, column: integer(timestamp)}
    statement = insert(fim_scans).values(row)
    changes.execute(fim_scans, statement.on_conflict_do_update(set_={column: statement.excluded[column]}))
