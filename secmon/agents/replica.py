"""Replication of the registry: changes since a revision, and their application to a replica.

``meta.source`` has the id of the store that a replica follows. A local write, as of a new master, clears it: the next
changes do not fit then, and the whole registry is fetched.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Executable,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from secmon.agents.registry.entries import (
    ENTRY,
    TOMBSTONE,
    Entry,
    RunningDigest,
    Tombstone,
    entries,
    pick,
    tombstones,
    values,
    write_members,
)
from secmon.agents.registry.schema import SCHEMA, agent_groups, agents, removed
from secmon.agents.registry.store import get, number, put


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Position of a replica: store, revision and digest. An empty ``source``: not a replica."""

    source: str
    revision: int
    digest: str


class RegistryChanges(msgspec.Struct, frozen=True, array_like=True):
    """Changes from revision ``since`` of the store ``source`` to ``revision``; ``since`` None: the whole registry.

    ``digest`` is that of the whole registry at ``revision``. Rows hold keys: send them to authenticated peers only.
    """

    source: str
    since: int | None
    revision: int
    digest: str
    next_id: int
    entries: list[Entry]
    tombstones: list[Tombstone]
    schema: int = 1
    """Version of the sender's tables: the digest is of their columns."""


class Diverged(Exception):
    """The changes do not fit this replica, which needs the whole registry. Roll the transaction back."""


def position(connection: Connection) -> Position:
    """The position of this replica."""
    revision, digest = number(connection, "revision"), get(connection, "digest") or ""
    return Position(get(connection, "source") or "", revision, digest)


def changes_since(connection: Connection, since: int | None) -> RegistryChanges:
    """Changes after revision ``since``; the whole registry for ``None`` and for a later revision than this store's."""
    revision = number(connection, "revision")
    if since is not None and since <= revision:
        changed = select(*ENTRY).where(agents.c.revision > since).order_by(agents.c.id)
        gone = select(*TOMBSTONE).where(removed.c.revision > since).order_by(removed.c.id)
        came = [Entry(*row) for row in connection.execute(changed)]
        left = [Tombstone(*row) for row in connection.execute(gone)]
    else:
        since, came, left = None, entries(connection), tombstones(connection)
    return RegistryChanges(
        source=get(connection, "store_id") or "",
        since=since,
        revision=revision,
        digest=get(connection, "digest") or "",
        next_id=number(connection, "next_id"),
        entries=came,
        tombstones=left,
        schema=SCHEMA.version,
    )


def apply_changes(connection: Connection, changes: RegistryChanges) -> bool:
    """Apply ``changes`` to this store; return whether anything was new. Agents keep their states.

    Changes that come twice, or late, have no effect. Raises :class:`Diverged`; the caller's transaction must then be
    rolled back.
    """
    here = position(connection)
    if changes.since is None:
        _apply_snapshot(connection, changes, fresh=here.source != changes.source)
        return True
    if here.source != changes.source or here.revision < changes.since:
        raise Diverged(f"at revision {here.revision} of {here.source or 'none'}, sent those after {changes.since}")
    if here.revision >= changes.revision:
        return False
    touched = [*(one.id for one in changes.entries), *(one.id for one in changes.tombstones)]
    old = {row[0]: Entry(*row) for row in pick(connection, ENTRY, touched)}
    stones = {row[0]: Tombstone(*row) for row in pick(connection, TOMBSTONE, touched)}
    digest = RunningDigest(changes.revision, int(here.digest, 16))
    for entry in old.values():
        digest.subtract(entry)
    for stone in stones.values():
        digest.subtract(stone)
    _check(digest, changes)
    _write(connection, old, stones, changes)
    return True


def _apply_snapshot(connection: Connection, changes: RegistryChanges, *, fresh: bool) -> None:
    """Replace the registry. ``fresh``: the store is another one than before."""
    _check(RunningDigest(changes.revision, 0), changes)
    old = {one.id: one for one in entries(connection)}
    stones = {one.id: one for one in tombstones(connection)}
    if fresh:
        old = _drop_other_agents(connection, old, changes.entries)
    _write(connection, old, stones, changes)


def _check(digest: RunningDigest, changes: RegistryChanges) -> None:
    """Whether ``digest`` with the rows of ``changes`` gets where it should. Raises :class:`Diverged`.

    Not checked while the releases differ: rows then lack columns that the master's digest covers.
    """
    if changes.schema != SCHEMA.version:
        return
    for entry in changes.entries:
        digest.add(entry)
    for stone in changes.tombstones:
        digest.add(stone)
    if digest.text != changes.digest:
        raise Diverged(f"the digest at revision {changes.revision} would be {digest.text}, not {changes.digest}")


def verify(connection: Connection) -> bool:
    """Whether the stored digest is that of the rows. Reads all of them."""
    digest = RunningDigest(0, 0)
    for entry in entries(connection):
        digest.add(entry)
    for stone in tombstones(connection):
        digest.add(stone)
    return digest.text == get(connection, "digest")


def _drop_other_agents(connection: Connection, old: Mapping[int, Entry], coming: Iterable[Entry]) -> dict[int, Entry]:
    """Delete agents whose ids are those of other agents in the new registry; return ``old`` without them."""
    keys = {one.id: one.internal_key for one in coming}
    _delete(connection, agents, [one.id for one in old.values() if keys.get(one.id) != one.internal_key])
    return {one.id: one for one in old.values() if keys.get(one.id) == one.internal_key}


def _write(
    connection: Connection, old: Mapping[int, Entry], stones: Mapping[int, Tombstone], changes: RegistryChanges
) -> None:
    """Turn the rows ``old`` and ``stones`` into those of ``changes``.

    Names stay unique at every step: removed agents are deleted first, then renamed agents get a temporary name, then
    new names are written. So agents can even swap names.
    """
    coming = {one.id: one for one in changes.entries}
    left = {one.id: one for one in changes.tombstones}
    try:
        _delete(connection, agents, [agent for agent in old if agent not in coming])
        _delete(connection, removed, [agent for agent, stone in stones.items() if left.get(agent) != stone])
        renamed = [one.id for one in old.values() if one.id in coming and coming[one.id].name != one.name]
        _run(
            connection,
            update(agents).where(agents.c.id == bindparam("agent")).values(name=bindparam("parked")),
            [{"agent": agent, "parked": f" {agent}"} for agent in renamed],
        )
        _put(connection, old, [one for one in changes.entries if old.get(one.id) != one])
        fresh = [one for one in changes.tombstones if stones.get(one.id) != one]
        _run(connection, insert(removed), [values(TOMBSTONE, one) for one in fresh])
    except IntegrityError as error:
        raise Diverged(str(error.orig)) from error
    for name in ("source", "revision", "digest", "next_id"):
        put(connection, name, getattr(changes, name))


def _put(connection: Connection, old: Mapping[int, Entry], rows: Sequence[Entry]) -> None:
    known = [one for one in rows if one.id in old]
    fields: dict[str, Any] = {column.name: bindparam(f"new_{column.name}") for column in ENTRY if column.name != "id"}
    _run(
        connection,
        update(agents).where(agents.c.id == bindparam("new_id")).values(fields),
        [{f"new_{name}": value for name, value in values(ENTRY, one).items()} for one in known],
    )
    _run(connection, insert(agents), [values(ENTRY, one) for one in rows if one.id not in old])
    regrouped = [one for one in known if old[one.id].group != one.group]
    _delete(connection, agent_groups, [one.id for one in regrouped], column="agent_id")
    write_members(connection, [*regrouped, *(one for one in rows if one.id not in old)])


def _delete(connection: Connection, table: Table, ids: Sequence[int], *, column: str = "id") -> None:
    _run(connection, delete(table).where(table.c[column] == bindparam("agent")), [{"agent": one} for one in ids])


def _run(connection: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)
