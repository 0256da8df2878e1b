"""Comparison of a range of an agent's rows with the manager's copy (docs/reference/agent-data.md 2.3, 2.4)."""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Literal

import msgspec
from sqlalchemy import Select, and_, bindparam, select

from secmon.inventory.changes import Changes
from secmon.inventory.components import LEGACY, Component
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.synchronization import bookkeeping

Verdict = Literal["match", "checksum_fail", "no_data"]

_ROWS = 1000
"""Checksums that are read at once."""
_ANSWER_BYTES = 60_000
"""Size of the largest answer: an agent takes messages of 64 KiB."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the rows from ``begin`` to ``end``.

    ``kind``: ``global`` for a whole table, ``left`` and ``right`` for the halves of a range that differed. ``tail``:
    the key that follows ``end`` in the agent's table. ``round``: when the agent began it, in seconds since 1970.
    """

    kind: str
    round: int
    begin: str
    end: str
    tail: str | None
    checksum: str


def check(component: Component, message: AgentMessage, wanted: Check, changes: Changes) -> None:
    """Compare, delete rows that the agent does not have, and answer unless the rows are equal.

    Rows outside the range are deleted first: this voids the checksum of an earlier match, and they are in no range.
    A check for which more rows would be read than an agent may ask for is not answered; it is counted.
    """
    agent = message.agent
    answer = msgspec.json.encode({"begin": wanted.begin, "end": wanted.end, "id": wanted.round}).decode()
    if len(answer.encode()) > _ANSWER_BYTES:
        raise MalformedMessage("begin and end are too long to be repeated")
    if not changes.limits.rows.may_compare(agent, message.received):
        changes.refused_checks += 1
        return
    _delete(component, agent, wanted, changes)
    record = bookkeeping.read(component, agent, changes) if wanted.kind == "global" else None
    if record is not None and wanted.checksum and record.last_manager_checksum == wanted.checksum:
        verdict: Verdict = "match"
    else:
        verdict = _compare(component, message, wanted, changes)
    if record is not None:
        bookkeeping.write(
            component, agent, record.after_check(wanted.round, wanted.checksum, verdict == "match"), changes
        )
    if verdict != "match":
        changes.answer(agent, f"{component.name} dbsync {verdict} {answer}")


def clear(component: Component, agent: int, round_: int, changes: Changes) -> None:
    """Delete all rows: the agent's table is empty."""
    changes.delete(component.table, agent, component.of_agent)
    record = bookkeeping.read(component, agent, changes)
    bookkeeping.write(component, agent, record.after_check(round_, "", True), changes)


def _compare(component: Component, message: AgentMessage, wanted: Check, changes: Changes) -> Verdict:
    agent, table = message.agent, component.table
    if wanted.kind == "global" and not component.types:
        changes.delete(table, agent, table.c.checksum.in_(["", LEGACY]))
    values = {"agent": agent, "begin": wanted.begin, "end": wanted.end}
    found = changes.execute(table, _checksums(component), values)
    digest, rows = hashlib.sha1(usedforsecurity=False), 0
    for checksums in found.scalars().partitions(_ROWS):
        rows += len(checksums)
        digest.update("".join(filter(None, checksums)).encode())
    changes.limits.rows.compared(agent, rows)
    if not rows:
        return "no_data"
    if rows > 1 and wanted.begin == wanted.end:  # several rows of one name: the agent sends its own again
        changes.delete(table, agent, component.in_ranges, component.key == bindparam("begin"), begin=wanted.begin)
        return "checksum_fail"
    return "match" if digest.hexdigest() == wanted.checksum else "checksum_fail"


def _delete(component: Component, agent: int, wanted: Check, changes: Changes) -> None:
    """Delete the rows that the agent does not have, as the check says."""
    key, mine = component.key, component.of_agent
    before, after = key < bindparam("begin"), key > bindparam("end")
    if wanted.kind == "global" or (wanted.kind == "left" and wanted.tail is None):
        # Two statements: one with both conditions would read the whole table.
        changes.delete(component.table, agent, mine, before, begin=wanted.begin)
        changes.delete(component.table, agent, mine, after, end=wanted.end)
    elif wanted.kind == "left":
        between = and_(after, key < bindparam("tail"))
        changes.delete(component.table, agent, mine, between, end=wanted.end, tail=wanted.tail)


@cache
def _checksums(component: Component) -> Select[tuple[str]]:
    """The checksums of a range in the order of the keys, which is that of their bytes."""
    key, table = component.key, component.table
    in_range = key.between(bindparam("begin"), bindparam("end"))
    return select(table.c.checksum).where(component.in_ranges, in_range).order_by(key)
