"""The reader of the journal of agents' messages: stores what they say, exactly once.

The position in the journal is written in the transaction of the rows, so that a kill at any moment neither loses nor
repeats a row. Events for the analysis are appended to a journal of their own before that transaction commits. A kill in
between leaves events without their rows: the store knows how many events its rows have led to, and after the start the
same messages lead to the same events, of which those that the journal has are skipped. Events that do not follow from
messages are in the store first (``pending_events``), and are appended before the next messages are read.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.inventory.agent_limits import AgentLimits
from secmon.inventory.changes import Changes, Handlers
from secmon.inventory.decoded_event import encode_event
from secmon.inventory.message import AgentMessage, MalformedMessage, UnsupportedMessage, read_message
from secmon.inventory.schema import pending_events, reader_positions
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import Block, JournalReader, JournalWriter
from secmon.journal.segments import consumer_path

log = logging.getLogger("secmon.db")

CONSUMER = "inventory"
"""Name of the reader among those of the journal."""
BATCH_BYTES = 4 << 20
"""Bytes of the journal that are read at once, and stored in one transaction."""
_WARNINGS = 5
_WARNING_SECONDS = 60.0

_PENDING = select(pending_events).order_by(pending_events.c.id).limit(1000)
_REFUSED = (IntegrityError, DataError, InterfaceError, ProgrammingError, ValueError, OverflowError)
"""Errors of a row that the store does not take."""

Answer = tuple[int, str]
"""The number of an agent, and a text for it."""


class InventoryReader:
    """Reads, stores, and returns what agents are to be sent. For one thread at a time; all methods block."""

    def __init__(
        self,
        store: InventoryStore,
        messages: Path,
        events: JournalWriter,
        handlers: Handlers,
        *,
        clock: Clock,
        counters: Counters,
        limits: AgentLimits | None = None,
    ) -> None:
        """Registers as a reader of the journal in the folder ``messages``, or continues where the store is.

        ``events``: the journal for the analysis; the caller closes it. Raises OSError, StoreFault.
        """
        self._store, self._events, self._handlers, self._counters = store, events, handlers, counters
        self._limits = limits or AgentLimits()
        self._clock = clock
        self._warnings = WarningLimiter(log, clock, window_seconds=_WARNING_SECONDS, per_window=_WARNINGS)
        known = consumer_path(messages, CONSUMER).exists()
        self._reader = JournalReader(messages, CONSUMER)
        try:
            with store.write() as connection:
                position = _read_position(connection)
                # A journal that is new to this reader numbers its messages from the beginning: a stored one is void.
                if position is None or not known:
                    position = self._reader.next, events.next
                    _write_position(connection, *position)
        except BaseException:
            self._reader.close()
            raise
        self._reader.next = max(self._reader.next, position[0])
        self._next_event = position[1]
        self._waiting: list[Block] = []
        self.events_wait = True
        """Others may have written events into the store since the last step."""

    @property
    def position(self) -> int:
        """Number of the next message."""
        return self._waiting[0].first if self._waiting else self._reader.next

    @property
    def lost(self) -> int:
        """Messages that were removed, or damaged, before they were read."""
        return self._reader.lost

    def unread(self) -> int:
        """About how many bytes of the journal were not read yet. Raises OSError."""
        return self._reader.unread()

    @property
    def waits_for_analysis(self) -> bool:
        """The journal for the analysis is full: nothing is read until the analysis has caught up."""
        if self._events.full:
            self._events.make_room()
        return self._events.full

    @property
    def settled(self) -> bool:
        """The journal for the analysis has no events of a transaction that was interrupted: others may write rows."""
        return self._events.next <= self._next_event

    def step(self) -> tuple[bool, Sequence[Answer]]:
        """Store the messages that are there: whether there were any, and the answers to them.

        Raises OSError and SQLAlchemyError when they could not be stored; the next call tries again.
        """
        if self.waits_for_analysis:
            return False, ()
        passed_on = self._append_pending()
        if not self._waiting:
            self._waiting = self._reader.read(limit=BATCH_BYTES)
        if not self._waiting:
            return passed_on, ()
        messages = self._select(self._waiting)
        end = self._waiting[-1].end
        try:
            answers = self._store_all(messages, end)
        except _REFUSED as error:
            log.error("Messages of agents cannot be stored together and are stored one by one: %s", error)
            answers = self._store_each(messages, end)
        self._waiting = []
        self._reader.commit(end)
        self._counters.add("inventory.messages", len(messages))
        return True, answers

    def close(self) -> None:
        self._reader.close()

    def _select(self, blocks: Sequence[Block]) -> list[AgentMessage]:
        """The messages that have a handler."""
        found = []
        for block in blocks:
            for at, data in enumerate(block.events):
                if chr(data[0]) not in self._handlers if data else True:
                    continue
                message = read_message(data, block.at, block.first + at)
                if message is None:
                    self._counters.add("inventory.malformed")
                else:
                    found.append(message)
        return found

    def _store_all(self, messages: Sequence[AgentMessage], end: int) -> list[Answer]:
        """Store the messages before number ``end`` in one transaction. Raises what the store and its journal raise."""
        begun = self._clock.monotonic()
        try:
            with self._store.write() as connection:
                self._limits.begin(connection)
                changes = Changes(connection, self._limits)
                for message in messages:
                    self._handle(message, changes)
                changes.flush_all()
                self._append([encode_event(event) for event in changes.events])
                _write_position(connection, end, self._next_event + len(changes.events))
        except BaseException:
            self._limits.forget()
            raise
        self._next_event += len(changes.events)
        self._count(changes, self._clock.monotonic() - begun)
        return changes.answers

    def _store_each(self, messages: Sequence[AgentMessage], end: int) -> list[Answer]:
        """Store each message in a transaction of its own; those that the store refuses are dropped."""
        answers: list[Answer] = []
        for message in messages:
            try:
                answers += self._store_all([message], message.number + 1)
            except _REFUSED as error:
                self._counters.add("inventory.refused_by_store")
                self._warn(message, str(error))
        self._store_all((), end)
        return answers

    def _handle(self, message: AgentMessage, changes: Changes) -> None:
        changes.begin(message)
        begun = self._clock.monotonic()
        try:
            self._handlers[message.queue](message, changes)
        except UnsupportedMessage as error:
            self._counters.add("inventory.unsupported")
            log.debug("A message of agent %03d (type %s) is dropped: %s", message.agent, message.queue, error)
        except MalformedMessage as error:
            self._counters.add("inventory.malformed")
            self._warn(message, str(error))
        changes.handled[changes.kind] += 1
        changes.seconds[changes.kind] += self._clock.monotonic() - begun

    def _count(self, changes: Changes, seconds: float) -> None:
        """Count what was stored in a transaction that took ``seconds``."""
        add = self._counters.add
        add("inventory.transactions")
        add("inventory.transaction_us", round(seconds * 1e6))
        for kind, number in changes.handled.items():
            add(f"inventory.handled.{kind}", number)
            add(f"inventory.handled_us.{kind}", round(changes.seconds[kind] * 1e6))
        refused = {
            "refused_by_limit": changes.refused,
            "refused_by_bytes": changes.refused_bytes,
            "checks_refused": changes.refused_checks,
        }
        for name, number in refused.items():
            if number:
                add(f"inventory.{name}", number)

    def _append_pending(self) -> bool:
        """Pass on the events that wait in the store; whether there were any."""
        if not self.events_wait:
            return False
        with self._store.read() as connection:
            rows = connection.execute(_PENDING).all()
        if not rows:
            self.events_wait = False
            return False
        with self._store.write() as connection:
            self._append([event for _, event in rows])
            connection.execute(delete(pending_events).where(pending_events.c.id <= rows[-1].id))
            _write_position(connection, self.position, self._next_event + len(rows))
        self._next_event += len(rows)
        return True

    def _append(self, events: Sequence[bytes]) -> None:
        """Append those of ``events`` that an earlier try has not appended. Raises OSError."""
        appended = max(0, self._events.next - self._next_event)
        self._events.append(events[appended:])

    def _warn(self, message: AgentMessage, reason: str) -> None:
        self._warnings.warn(
            f"{message.agent} {message.queue}",
            "A message of agent %03d (type %s) is dropped: %s",
            message.agent,
            message.queue,
            reason,
        )


def _read_position(connection: Connection) -> tuple[int, int] | None:
    """The numbers of the next message and of the next event; None in a new store."""
    row = connection.execute(
        select(reader_positions.c.next_message, reader_positions.c.next_event).where(
            reader_positions.c.reader == CONSUMER
        )
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def _write_position(connection: Connection, next_message: int, next_event: int) -> None:
    row = {"reader": CONSUMER, "next_message": next_message, "next_event": next_event}
    connection.execute(insert(reader_positions).prefix_with("OR REPLACE"), [row])
