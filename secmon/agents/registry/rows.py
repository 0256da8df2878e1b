"""How rows of the registry are written: for ``registry`` and ``replica``, which say when."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import astuple
from sqlalchemy import Column, Connection, bindparam, delete, insert, update

from secmon.agents.registry.entries import ENTRY, TOMBSTONE, Entry, RunningDigest, Tombstone
from secmon.agents.registry.schema import agent_groups, agents, removed


def insert_entries(connection: Connection, digest: RunningDigest, rows: Sequence[Entry]) -> None:
    """Agents that are new, with their groups."""
    if rows:
        connection.execute(insert(agents), [values(ENTRY, row) for row in rows])
        write_members(connection, rows)
        for row in rows:
            digest.add(row)


def delete_entries(connection: Connection, digest: RunningDigest, gone: Sequence[Entry], *, purge: bool) -> None:
    """Agents that go, and their tombstones."""
    if gone:
        where = agents.c.id == bindparam("agent")
        connection.execute(delete(agents).where(where), [{"agent": one.id} for one in gone])
        for one in gone:
            digest.subtract(one)
        purged, revision = int(purge), digest.revision
        stones = [Tombstone(one.id, one.name, one.register_ip, one.internal_key, purged, revision) for one in gone]
        insert_tombstones(connection, digest, stones)


def insert_tombstones(connection: Connection, digest: RunningDigest, stones: Sequence[Tombstone]) -> None:
    """Tombstones of ids that have none."""
    connection.execute(insert(removed), [values(TOMBSTONE, one) for one in stones])
    for one in stones:
        digest.add(one)


def delete_tombstones(connection: Connection, digest: RunningDigest, stones: Sequence[Tombstone]) -> None:
    """Take tombstones away."""
    if stones:
        where = removed.c.id == bindparam("agent")
        connection.execute(delete(removed).where(where), [{"agent": one.id} for one in stones])
        for one in stones:
            digest.subtract(one)


def write_groups(connection: Connection, rows: Sequence[Entry]) -> None:
    """Write the group columns of rows that exist, and the table of members."""
    if not rows:
        return
    connection.execute(
        update(agents)
        .where(agents.c.id == bindparam("agent"))
        .values(group=bindparam("joined"), group_hash=bindparam("hash"), revision=bindparam("number")),
        [{"agent": one.id, "joined": one.group, "hash": one.group_hash, "number": one.revision} for one in rows],
    )
    connection.execute(
        delete(agent_groups).where(agent_groups.c.agent_id == bindparam("agent")), [{"agent": one.id} for one in rows]
    )
    write_members(connection, rows)


def write_members(connection: Connection, rows: Iterable[Entry]) -> None:
    """The members' rows of agents that have none."""
    members = [
        {"agent_id": one.id, "priority": priority, "name": name}
        for one in rows
        for priority, name in enumerate(one.groups)
    ]
    if members:
        connection.execute(insert(agent_groups), members)


def values(columns: Iterable[Column[Any]], row: Entry | Tombstone) -> dict[str, Any]:
    """A row as parameters of a statement."""
    return dict(zip((column.name for column in columns), astuple(row), strict=True))
