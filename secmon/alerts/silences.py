"""Silences: alerts that are stored, but for a time neither delivered nor answered.

They are rows of the security store, so that every node has them. An alert is judged by its own time: what is delivered
late is held back, or not, as it was when the alert arose. So a silence that has ended is kept for a while.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct, structs
from sqlalchemy.exc import SQLAlchemyError

from secmon.alerts.conditions import AlertConditions
from secmon.alerts.judging import AlertTest, JudgedAlert
from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import StoreFault
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import ReadTransaction, WriteTransaction

log = logging.getLogger("secmon.alerts")

MAX_SILENCES = 200
"""That have not ended."""
MAX_KEPT = 500
"""All, with those that have ended; the oldest of these go first."""
KEPT = timedelta(days=30)
"""How long one is kept after its end."""
LONGEST = timedelta(days=365)

State = Literal["planned", "in_force", "ended"]


class Silence(Struct, frozen=True):
    """``question``: which alerts, without times. ``group``: the group of agents that its author has named.

    ``since`` and ``until`` (not included) are milliseconds since 1970, ``created_at`` seconds.
    """

    id: int
    question: AlertQuestion
    group: str | None
    since: int
    until: int
    user: str
    reason: str
    created_at: int

    @classmethod
    def of(cls, row: Row) -> Self:
        """Of a row of the store. Raises msgspec.MsgspecError."""
        question = msgspec.json.decode(row["question"], type=AlertQuestion)
        return cls(group=row["agent_group"], question=question, **{name: row[name] for name in _COLUMNS})

    def row(self) -> Row:
        """For the store."""
        text = msgspec.json.encode(self.question).decode()
        return {"question": text, "agent_group": self.group, **{name: getattr(self, name) for name in _COLUMNS}}

    def state(self, now: int) -> State:
        """At ``now``, in milliseconds since 1970."""
        return "ended" if now >= self.until else "planned" if now < self.since else "in_force"

    @property
    def covered(self) -> AlertQuestion:
        """The alerts that it covers."""
        return structs.replace(self.question, since=self.since, until=self.until)


_COLUMNS = ("id", "since", "until", "user", "reason", "created_at")


def in_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def read_silences(tx: ReadTransaction) -> list[Silence]:
    """All of them, by id."""
    return [Silence.of(row) for row in tx.select(schema.silences)]


def create_silence(tx: WriteTransaction, wanted: Silence, clock: Clock) -> Silence:
    """Store ``wanted`` under an id of its own. Raises 1773, 1775, 1776, and what a wrong question does."""
    AlertConditions(wanted.question)
    if wanted.question.agents.nothing:
        raise SecmonError(1773, "the agents that it names are none, or none that you may silence")
    now = in_milliseconds(clock.now())
    _check_times(wanted, now)
    if sum(one.until > now for one in read_silences(tx)) >= MAX_SILENCES:
        raise SecmonError(1775, f"the maximum is {MAX_SILENCES}")
    made = structs.replace(wanted, id=tx.next_id(schema.silences), created_at=now // 1000)
    tx.put(schema.silences, made.row())
    forget_ended(tx, clock)
    return made


def change_silence(
    tx: WriteTransaction, silence: Silence, clock: Clock, *, until: int | None, reason: str | None
) -> Silence:
    """Prolong it, end it (``until`` is not later than now), or give another reason. Raises 1776."""
    now = in_milliseconds(clock.now())
    if until is not None:
        if silence.state(now) == "ended":
            raise SecmonError(1776, "the silence has ended: make another one", ids=(silence.id,))
        silence = structs.replace(silence, until=max(until, now))
        if until > now:
            _check_times(silence, now)
    silence = structs.replace(silence, reason=reason or silence.reason)
    tx.put(schema.silences, silence.row())
    return silence


def delete_silence(tx: WriteTransaction, silence: Silence) -> None:
    """As if it had never been: alerts that wait for a receiver are delivered."""
    tx.delete(schema.silences, silence.id)


def permitted_silence(tx: ReadTransaction, number: int, agents: AgentSelection) -> Silence:
    """The silence, if all agents that it covers are among ``agents``. Raises 1774, 4000."""
    row = tx.get(schema.silences, number)
    if row is None:
        raise SecmonError(1774, ids=(number,))
    silence = Silence.of(row)
    if not silence.question.agents.within(agents):
        raise SecmonError(4000, "Resource type: agent:id", ids=(number,))
    return silence


def forget_ended(tx: WriteTransaction, clock: Clock) -> int:
    """Delete those that have ended long ago, and the oldest ones that are too many; how many."""
    now = in_milliseconds(clock.now())
    ended = sorted((one for one in read_silences(tx) if one.until <= now), key=lambda one: one.until)
    oldest = now - int(KEPT / timedelta(milliseconds=1))
    surplus = len(tx.select(schema.silences)) - MAX_KEPT
    gone = [one for place, one in enumerate(ended) if one.until < oldest or place < surplus]
    for one in gone:
        tx.delete(schema.silences, one.id)
    return len(gone)


def _check_times(silence: Silence, now: int) -> None:
    if silence.until <= max(silence.since, now):
        raise SecmonError(1776, "the end is in the past, or before the begin")
    if silence.until - silence.since > LONGEST / timedelta(milliseconds=1):
        raise SecmonError(1776, f"longer than {LONGEST.days} days")


class Silences:
    """The silences of this node's security store, as they judge alerts. For one task.

    While the store cannot be read, those that were read last are in force.
    """

    def __init__(self, path: Path) -> None:
        """``path`` of the store; while there is none there are no silences."""
        self._path = path
        self._store: SecurityStore | None = None
        self._token: int | None = None
        self._tests: dict[int, tuple[Silence, AlertTest]] = {}
        self._failure = FailureLog(log, "Silences cannot be read, the last known ones hold", "Silences are read again")

    def covering(self, fields: Mapping[str, Any]) -> Silence | None:
        """The silence that held when the alert arose, the first of several; as of the last :meth:`refresh`."""
        if not self._tests:
            return None
        alert = JudgedAlert(fields)
        try:
            return next((one for one, test in self._tests.values() if test.meets(alert)), None)
        except RecursionError:  # an alert nested this deeply is not in the index either
            return None

    def hold(self, fields: Mapping[str, Any], counters: Counters) -> bool:
        """Whether the alert is to be held back; counted for the silence that covers it."""
        silence = self.covering(fields)
        if silence is not None:
            counters.add(f"silences.held.{silence.id}")
        return silence is not None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def refresh(self) -> None:
        """Take changes of the store into account; microseconds while there are none."""
        try:
            if self._store is None:
                self._store = SecurityStore(self._path, writable=False, create=False)
            token = self._store.version_token()
            if token != self._token:
                with self._store.read() as tx:
                    found = read_silences(tx)
                self._tests = {one.id: self._known(one) for one in found}
                self._token = token
            self._failure.succeeded()
        except FileNotFoundError:
            return
        except (OSError, SQLAlchemyError, StoreFault, SecmonError, msgspec.MsgspecError) as error:
            self._failure.failed(str(error))

    def _known(self, silence: Silence) -> tuple[Silence, AlertTest]:
        known = self._tests.get(silence.id)
        return known if known is not None and known[0] == silence else (silence, _test(silence))


def _test(silence: Silence) -> AlertTest:
    return AlertTest(AlertConditions(silence.covered))
