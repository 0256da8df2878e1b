"""The row of the current term in the store of record.

One row, judged by the clock of the database (``clock_timestamp()``, not the start of a transaction). Each function is
one statement, or a few in the transaction of the caller. All raise SQLAlchemy's DBAPIError.

Locks (PostgreSQL, explicit locking, row-level locks): a write of the master holds ``FOR KEY SHARE`` on the row.
A renewal changes no key, so it passes. A claim changes ``number``, which is a key, so it waits for running writes, and
a write that waited for a claim finds no row.
"""

import uuid

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, false, func, literal, or_, select, text, true, update
from sqlalchemy.dialects.postgresql import insert

from secmon.cluster.leadership.candidates import Candidate
from secmon.cluster.leadership.term import TTL_SECONDS, Term, TermRow
from secmon.cluster.record.engine import APPLICATION
from secmon.cluster.record.schema import term

CHANNEL = "secmon_term"
"""Of NOTIFY: the row of the term has changed otherwise than by a renewal."""
STALLED_SECONDS = 4.0
"""Above the bound of the server for idle transactions of writers."""

_t = term.c
_clock = func.clock_timestamp()
_ttl = func.make_interval(0, 0, 0, 0, 0, 0, _t.ttl_seconds)
# The second condition: the clock of the database was set back, and shall not keep a dead master's term alive.
_expired = or_(_t.renewed + _ttl <= _clock, _t.renewed > _clock + _ttl)


def create_row(connection: Connection) -> None:
    """Make the row of a new store of record, in which no node is master yet; no effect if there is one."""
    first = {"one": 1, "number": 0, "id": _new_id(), "holder": "", "address": "", "port": 0, "resigned": False}
    times = {"since": _clock, "renewed": _clock, "ttl_seconds": TTL_SECONDS}
    values = {
        **first,
        **times,
        "successor": "",
        "reason": "the store of record is new",
        "protocol": 0,
        "min_protocol": 0,
    }
    connection.execute(insert(term).values(values).on_conflict_do_nothing())


def look(connection: Connection) -> TermRow | None:
    """The row; None in a store of record that was not set up."""
    return _row(connection.execute(_select).one_or_none())


def prove(connection: Connection, held: Term) -> bool:
    """Whether ``held`` is the current term. If so, no other can begin before the transaction ends."""
    found = select(literal(1)).where(_is(held)).with_for_update(read=True, key_share=True)
    return connection.execute(found).one_or_none() is not None


def end_stalled(connection: Connection, seconds: float) -> int:
    """End sessions of secmon whose transaction has been idle for ``seconds``; their number.

    The server ends most of them by itself. Not those of a client that was paused between two messages of a pipeline,
    or in the middle of one: they would keep their lock on the row for good. They cannot commit any more.
    """
    idle = text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = current_user "
        "AND datname = current_database() AND application_name = :name AND pid <> pg_backend_pid() "
        "AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - make_interval(secs => :seconds)"
    )
    return int(connection.execute(idle, {"name": APPLICATION, "seconds": seconds}).scalar_one())


def claim(
    connection: Connection, seen: Term, by: Candidate, reason: str, *, above: int = 0, ttl_seconds: int = TTL_SECONDS
) -> Term | None:
    """Begin a new term after ``seen``, which has expired, was resigned, was that of the same node, or is below
    ``above``, the highest number that this node knows: the database has lost its last changes then.

    Waits for writes under ``seen``, and ends those that stall. None: another node was faster, or the holder
    has renewed.
    """
    end_stalled(connection, STALLED_SECONDS)
    own = and_(_t.holder == by.node, _t.address == by.address, _t.port == by.port)
    free = or_(_expired, _t.resigned, _t.holder == "", own, _t.number < above)
    number = max(seen.number, above) + 1
    new = Term(number=number, id=_new_id(), holder=by.node, address=by.address, port=by.port)
    values = {**msgspec.to_builtins(new), "since": _clock, "renewed": _clock, "ttl_seconds": ttl_seconds}
    values |= {"resigned": False, "successor": "", "reason": reason}
    values |= {"protocol": by.protocol, "min_protocol": by.min_protocol}
    done = connection.execute(update(term).where(_is(seen), free).values(values))
    if done.rowcount != 1:
        return None
    _notify(connection, new)
    return new


def renew(connection: Connection, held: Term) -> bool:
    """Extend ``held``, even late: False if it is not the current term any more, or was resigned."""
    live = update(term).where(_is(held), _t.resigned.is_(false())).values(renewed=_clock)
    return connection.execute(live).rowcount == 1


def resign(connection: Connection, held: Term, successor: str, reason: str) -> bool:
    """Let another node begin the next term now: ``successor``, or any if empty. False if ``held`` has ended.

    Writes under ``held`` go on until then.
    """
    values = {"resigned": true(), "successor": successor, "reason": reason}
    if connection.execute(update(term).where(_is(held)).values(values)).rowcount != 1:
        return False
    _notify(connection, held)
    return True


_select = select(term, _expired.label("expired"))


def _is(one: Term) -> ColumnElement[bool]:
    return and_(_t.number == one.number, _t.id == one.id)


def _notify(connection: Connection, changed: Term) -> None:
    connection.execute(select(func.pg_notify(CHANNEL, str(changed.number))))


def _new_id() -> str:
    return uuid.uuid4().hex


def _row(found: Row[tuple[object, ...]] | None) -> TermRow | None:
    if found is None:
        return None
    values = found._mapping
    current = Term(**{name: values[name] for name in Term.__struct_fields__})
    rest = {name: values[name] for name in TermRow.__struct_fields__ if name != "term"}
    return TermRow(current, **rest)
