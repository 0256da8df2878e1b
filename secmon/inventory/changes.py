"""What a batch of messages changes: rows, answers to agents, and events for the analysis."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from sqlalchemy import Connection, CursorResult, Executable, Table
from sqlalchemy.dialects.sqlite import Insert, insert

from secmon.inventory.decoded_event import DecodedEvent
from secmon.inventory.message import AgentMessage

Row = Mapping[str, Any]
"""A row by columns; a column that it lacks becomes null."""


class Changes:
    """The changes of one transaction, in the order of the messages.

    Rows are gathered by table and written together. A statement sees all rows that were saved in its table before it.
    """

    def __init__(self, connection: Connection) -> None:
        """``connection``: in a write transaction, whose owner sends answers and events after the commit."""
        self._connection = connection
        self._rows: dict[Table, list[dict[str, Any]]] = {}
        self.answers: list[tuple[int, str]] = []
        """Control messages for agents, by number: the texts after ``#!-`` (agent-data.md 1.2)."""
        self.events: list[DecodedEvent] = []

    def save(self, table: Table, row: Row) -> None:
        """Insert ``row``, or replace the whole row with its primary key."""
        self._rows.setdefault(table, []).append({name: row.get(name) for name in _columns(table)})

    def execute(self, table: Table, statement: Executable) -> CursorResult[Any]:
        """Run a statement on ``table`` after the rows saved in it."""
        self.flush(table)
        return self._connection.execute(statement)

    def flush(self, table: Table) -> None:
        """Write the rows saved in ``table``."""
        if rows := self._rows.pop(table, None):
            self._connection.execute(_replacement(table), rows)

    def flush_all(self) -> None:
        """Write all rows. To be called before the commit."""
        for table in list(self._rows):
            self.flush(table)

    def answer(self, agent: int, text: str) -> None:
        self.answers.append((agent, text))

    def report(self, event: DecodedEvent) -> None:
        """Pass ``event`` on to the analysis."""
        self.events.append(event)


@cache
def _columns(table: Table) -> tuple[str, ...]:
    """The columns to write: all but a number that the database gives."""
    return tuple(column.name for column in table.columns if column is not table.autoincrement_column)


@cache
def _replacement(table: Table) -> Insert:
    return insert(table).prefix_with("OR REPLACE")


class Handler(Protocol):
    """Handles the messages of one kind. It depends on the message and the store only, never on the time of day:
    after a kill the same messages must lead to the same events."""

    def __call__(self, message: AgentMessage, changes: Changes) -> None:
        """Store what ``message`` says. Raises MalformedMessage or UnsupportedMessage before it has changed anything."""


Handlers = Mapping[str, Handler]
"""Handlers by the type of messages (agent-data.md 1.1)."""
