"""What a batch of messages changes: rows, answers to agents, and events for the analysis."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    Select,
    Table,
    bindparam,
    delete,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import dialect, insert

from secmon.inventory.agent_limits import AgentLimits
from secmon.inventory.byte_limits import LIMITED, size_of, total_statement
from secmon.inventory.components import SYNCHRONIZED, components_with
from secmon.inventory.decoded_event import DecodedEvent, event_of
from secmon.inventory.message import AgentMessage
from secmon.inventory.schema import (
    fim_entries,
    hotfixes,
    operating_systems,
    packages,
    row_refusals,
    synchronizations,
    vulnerability_marks,
)

Row = Mapping[str, Any]
"""A row by columns; a column that it lacks becomes null."""


class Changes:
    """The changes of one transaction, in the order of the messages.

    Rows are gathered by table and written together. A statement sees all rows that were saved in its table before it.

    A row that is saved or deleted voids the manager's checksum of its components in ``synchronizations``: the next
    global check reads the rows (agent-data.md 2.4). So rows of synchronized tables are written by :meth:`save` and
    :meth:`delete` only.
    """

    def __init__(self, connection: Connection, limits: AgentLimits | None = None) -> None:
        """``connection``: in a write transaction, whose owner sends answers and events after the commit."""
        self._connection, self.limits = connection, limits or AgentLimits()
        self._message: AgentMessage | None = None
        self._rows: dict[Table, list[tuple[Any, ...]]] = {}
        self._changed: dict[Table, set[tuple[int, str | None]]] = {}
        self._marks: dict[tuple[int, str], float] = {}
        self.answers: list[tuple[int, str]] = []
        """Control messages for agents, by number: the texts after ``#!-`` (agent-data.md 1.2)."""
        self.events: list[DecodedEvent] = []
        self.refused = 0
        """Rows beyond the limits of their agents."""
        self.refused_bytes = 0
        """Rows with which their agents would have more bytes than they may."""
        self.refused_checks = 0
        """Checks beyond those limits."""
        self.kind = ""
        """What the current message is about, as statistics name it (manager.md 10.3)."""
        self.handled: Counter[str] = Counter()
        """Messages of each kind."""
        self.seconds: dict[str, float] = defaultdict(float)
        """Time that they took, but for the insertion of rows."""

    def begin(self, message: AgentMessage) -> None:
        """What follows is for ``message``."""
        self._message = message
        self.kind = _KINDS.get(message.queue, "")

    def save(self, table: Table, row: Row) -> None:
        """Insert ``row``, or replace the whole row with its primary key. A row beyond the limit is not stored."""
        values = tuple(map(row.get, _columns(table)))
        if table in LIMITED and not self._admit(table, row, values):
            return
        if table in SYNCHRONIZED:
            self._change(table, row["agent_id"], row["type"] if table is fim_entries else None)
            self._mark(table, row["agent_id"], row["item_id"] if table is packages else "")
        self._rows.setdefault(table, []).append(values)

    def delete(self, table: Table, agent: int, *conditions: ColumnElement[bool], **values: object) -> int:
        """Delete rows of ``agent`` after the rows saved in ``table``; returns how many.

        ``values``: of the parameters in ``conditions``.
        """
        wanted = delete(table).where(table.c.agent_id == bindparam("agent"), *conditions)
        size = self.limits.sizes.freed_by(table, agent) if table in LIMITED else None
        if size is not None:
            self.limits.sizes.grown(agent, -self._scalar(table, size.where(*conditions), {"agent": agent, **values}))
        deleted = self.execute(table, wanted, {"agent": agent, **values}).rowcount
        if deleted and table in SYNCHRONIZED:
            self._change(table, agent, None)
            self._mark(table, agent, "")
            self.limits.rows.deleted(table, agent, deleted)
        return deleted

    def execute(
        self, table: Table, statement: Executable, parameters: Mapping[str, object] | None = None
    ) -> CursorResult[Any]:
        """Run a statement on ``table`` after the rows saved in it."""
        self.flush(table)
        return self._connection.execute(statement, parameters)

    def flush(self, table: Table) -> None:
        """Write the rows saved in ``table``."""
        if rows := self._rows.pop(table, None):
            self._connection.exec_driver_sql(_replacement(table), rows)

    def flush_all(self) -> None:
        """Write all rows. To be called before the commit."""
        if self._marks:
            self._rows[vulnerability_marks] = [(*key, marked) for key, marked in self._marks.items()]
            self._marks.clear()
        for table in list(self._rows):
            self.flush(table)
        self.void_checksums()

    def void_checksums(self) -> None:
        """Clear the manager's checksums of components whose rows have changed."""
        voided = [
            (agent, name)
            for table, rows in self._changed.items()
            for agent, row_type in rows
            for name in components_with(table, row_type)
        ]
        self._changed.clear()
        if voided:
            self.flush(synchronizations)
            self._connection.exec_driver_sql(_VOID, voided)

    def answer(self, agent: int, text: str) -> None:
        self.answers.append((agent, text))

    def report(self, event: DecodedEvent) -> None:
        """Pass ``event`` on to the analysis."""
        self.events.append(event)

    def _scalar(self, table: Table, question: Select[Any], parameters: Mapping[str, object]) -> Any:
        return self.execute(table, question, parameters).scalar()

    def _admit(self, table: Table, row: Row, values: tuple[Any, ...]) -> bool:
        """Whether the limits of the agent admit the row; it is counted then, and refused otherwise."""
        rows, sizes = self.limits.rows, self.limits.sizes
        growth = sizes.growth(table, row, size_of(values), self._scalar, self._bytes_of)
        if growth is None:
            self.refused_bytes += 1
            megabytes = sizes.limit >> 20
            self._report_refusal(table, "byte_limit", megabytes, f"{megabytes} MB, the last for {table.name}")
        elif table in SYNCHRONIZED and not rows.admits(table, row, self._scalar):
            self.refused += 1
            self._report_refusal(table, "row_limit", rows.limit(table), f"{rows.limit(table)} rows for {table.name}")
        else:
            sizes.grown(row["agent_id"], growth)
            return True
        return False

    def _bytes_of(self, agent: int) -> int:
        for table in LIMITED:
            self.flush(table)
        found = self._connection.exec_driver_sql(total_statement(), (agent,) * len(LIMITED))
        return int(found.scalar_one())

    def _report_refusal(self, table: Table, kind: str, limit: int, amount: str) -> None:
        """The first refusal of an agent on a day of messages is an event."""
        message = self._message
        if message is None:
            return
        day = int(message.received // _DAY_SECONDS)
        reported = self._scalar(row_refusals, _LAST_REFUSAL, {"agent": message.agent})
        if reported is None or reported < day:
            self.save(row_refusals, {"agent_id": message.agent, "day": day})
            log = f"secmon-db: agent {message.agent:03} reports more than {amount}: they are refused"
            fields = [
                ("type", kind),
                ("operation_type", "REFUSED"),
                ("table", table.name),
                ("limit", str(limit)),
            ]
            self.report(event_of(message, "syscollector", fields, log))

    def _mark(self, table: Table, agent: int, item: str) -> None:
        """Have it compared with the advisories. ``item``: of a package; empty for anything else."""
        if table in _COMPARED and self._message is not None:
            self._marks[agent, item] = self._message.received

    def _change(self, table: Table, agent: int, row_type: str | None) -> None:
        self._changed.setdefault(table, set()).add((agent, row_type))


_COMPARED = (packages, operating_systems, hotfixes)
"""Tables whose rows decide which vulnerabilities a host has."""
_KINDS = {"8": "syscheck", "9": "rootcheck", "d": "dbsync", "e": "ciscat", "p": "sca"}
_DAY_SECONDS = 86_400
_LAST_REFUSAL = select(row_refusals.c.day).where(row_refusals.c.agent_id == bindparam("agent"))
_VOID = str(
    update(synchronizations)
    .where(
        synchronizations.c.agent_id == bindparam("agent"),
        synchronizations.c.component == bindparam("name"),
        synchronizations.c.last_manager_checksum != literal_column("''"),
    )
    .values(last_manager_checksum=literal_column("''"))
    .compile(dialect=dialect())
)


@cache
def _columns(table: Table) -> tuple[str, ...]:
    """The columns to write: all but a number that the database gives."""
    return tuple(column.name for column in table.columns if column is not table.autoincrement_column)


@cache
def _replacement(table: Table) -> str:
    """The statement for rows as tuples: SQLAlchemy's own way to bind rows costs more than the insertion."""
    statement = insert(table).prefix_with("OR REPLACE")
    return str(statement.compile(dialect=dialect(), column_keys=list(_columns(table))))


class Handler(Protocol):
    """Handles the messages of one kind. It depends on the message and the store only, never on the time of day:
    after a kill the same messages must lead to the same events."""

    def __call__(self, message: AgentMessage, changes: Changes) -> None:
        """Store what ``message`` says. Raises MalformedMessage or UnsupportedMessage before it has changed anything."""


Handlers = Mapping[str, Handler]
"""Handlers by the type of messages (agent-data.md 1.1)."""
