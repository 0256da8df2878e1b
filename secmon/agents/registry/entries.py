"""Rows of the registry: as values, as statements, and in the running digest that each change maintains."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import astuple
from sqlalchemy import Column, Connection, bindparam, delete, insert, select, update

from secmon.agents.names import padded, split_groups
from secmon.agents.registry.schema import REGISTRY, agent_groups, agents, meta, removed

_MODULUS = 1 << 128
_AT_ONCE = 5000
"""Ids of one statement: well below the limit of parameters."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An agent's half of the registry; fields named as the columns."""

    id: int
    name: str
    register_ip: str
    internal_key: str
    date_add: int
    group: str | None
    group_hash: str | None
    revision: int

    @property
    def padded(self) -> str:
        return padded(self.id)

    @property
    def groups(self) -> tuple[str, ...]:
        return split_groups(self.group)

    @property
    def line(self) -> str:
        """Its line of the key file, without the line's end (agent-link.md 2.1)."""
        return f"{self.padded} {self.name} {self.register_ip} {self.internal_key}"


class Tombstone(msgspec.Struct, frozen=True, array_like=True):
    """An agent that was removed. ``purged``: it has no line in the key file either."""

    id: int
    name: str
    register_ip: str
    internal_key: str
    purged: int
    revision: int


ENTRY = (agents.c.id, *(agents.c[name] for name in REGISTRY), agents.c.revision)
"""Columns in the order of :class:`Entry`'s fields."""

TOMBSTONE = tuple(removed.c)


def entries(connection: Connection) -> list[Entry]:
    """All agents by id."""
    return [Entry(*row) for row in connection.execute(select(*ENTRY).order_by(agents.c.id))]


def tombstones(connection: Connection) -> list[Tombstone]:
    """All removed agents by id."""
    return [Tombstone(*row) for row in connection.execute(select(*TOMBSTONE).order_by(removed.c.id))]


def pick(connection: Connection, columns: Sequence[Column[Any]], ids: Sequence[int]) -> Iterator[Any]:
    """The rows of these ids that exist, of the table that the columns belong to; however many ids there are."""
    identity = columns[0].table.c.id
    for start in range(0, len(ids), _AT_ONCE):
        yield from connection.execute(select(*columns).where(identity.in_(ids[start : start + _AT_ONCE])))


def fingerprint(row: Entry | Tombstone) -> int:
    """128 bits of the row's content, without its revision. All nodes of a cluster must compute the same."""
    kind = "Entry" if isinstance(row, Entry) else "Tombstone"
    content = msgspec.msgpack.encode((kind, *msgspec.structs.astuple(row)[:-1]))
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest())


class RunningDigest:
    """One change of the registry: its revision, and the digest, which is updated with each row.

    The digest is the sum of the rows' fingerprints modulo 2^128, so that the cost of a change depends on its rows only.
    """

    def __init__(self, revision: int, digest: int) -> None:
        self.revision = revision
        self.digest = digest

    def add(self, row: Entry | Tombstone) -> None:
        self.digest = (self.digest + fingerprint(row)) % _MODULUS

    def subtract(self, row: Entry | Tombstone) -> None:
        self.digest = (self.digest - fingerprint(row)) % _MODULUS

    @property
    def text(self) -> str:
        return f"{self.digest:032x}"


_META = select(meta.c.name, meta.c.value).where(meta.c.name.in_(("revision", "digest", "source")))
_SET_META = update(meta).where(meta.c.name == bindparam("key")).values(value=bindparam("new"))


@contextmanager
def change(connection: Connection) -> Iterator[RunningDigest]:
    """The next revision of a registry that is written here; rows changed inside are added to and subtracted from it.

    From then on this store is a copy of no other (see ``replica``).
    """
    values: dict[str, str] = {name: value for name, value in connection.execute(_META)}  # noqa: C416 - typed rows
    digest = RunningDigest(int(values["revision"]) + 1, int(values["digest"], 16))
    yield digest
    after = {"revision": str(digest.revision), "digest": digest.text} | ({"source": ""} if "source" in values else {})
    connection.execute(_SET_META, [{"key": name, "new": value} for name, value in after.items()])


def insert_entries(connection: Connection, digest: RunningDigest, rows: Sequence[Entry]) -> None:
    """Insert agents with their groups."""
    if rows:
        connection.execute(insert(agents), [values(ENTRY, row) for row in rows])
        write_members(connection, rows)
        for row in rows:
            digest.add(row)


def delete_entries(connection: Connection, digest: RunningDigest, gone: Sequence[Entry], *, purge: bool) -> None:
    """Delete agents and insert their tombstones."""
    if gone:
        where = agents.c.id == bindparam("agent")
        connection.execute(delete(agents).where(where), [{"agent": one.id} for one in gone])
        for one in gone:
            digest.subtract(one)
        purged, revision = int(purge), digest.revision
        stones = [Tombstone(one.id, one.name, one.register_ip, one.internal_key, purged, revision) for one in gone]
        insert_tombstones(connection, digest, stones)


def insert_tombstones(connection: Connection, digest: RunningDigest, stones: Sequence[Tombstone]) -> None:
    """Insert tombstones."""
    connection.execute(insert(removed), [values(TOMBSTONE, one) for one in stones])
    for one in stones:
        digest.add(one)


def delete_tombstones(connection: Connection, digest: RunningDigest, stones: Sequence[Tombstone]) -> None:
    """Delete tombstones."""
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
    """Insert the group rows of agents that have none."""
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
