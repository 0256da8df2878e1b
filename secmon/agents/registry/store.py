"""The agent store of a node: one SQLite file, shared by the daemons of the node."""

import uuid
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from secmon.agents.registry.schema import SCHEMA, meta
from secmon.common.clock import Clock, SystemClock
from secmon.common.sqlite.lazy_store import LazyStore
from secmon.common.sqlite.schema import open_store

FIRST_ID = 1
_VALUE = select(meta.c.value).where(meta.c.name == bindparam("name"))


class AgentStore(LazyStore):
    """The agents of a node at ``path``.

    ``durable`` False gives up the last commits at a loss of power, never at a crash: right for states, which agents
    report again within seconds, wrong for the registry.
    """

    def __init__(self, path: Path, *, durable: bool = True, clock: Clock | None = None) -> None:
        super().__init__(path, lambda: _open(path, "FULL" if durable else "NORMAL", clock or SystemClock()))

    def revision(self) -> int:
        """Of the registry: grows with each change of an agent's key, address, name or groups."""
        with self.read() as connection:
            return number(connection, "revision")


def _open(path: Path, level: Literal["FULL", "NORMAL"], clock: Clock) -> Engine:
    now = int(clock.now().timestamp())
    return open_store(path, SCHEMA, synchronous=level, first_rows=lambda connection: _begin(connection, now))


def get(connection: Connection, name: str) -> str | None:
    """A value of ``meta``."""
    value: str | None = connection.execute(_VALUE, {"name": name}).scalar_one_or_none()
    return value


def number(connection: Connection, name: str) -> int:
    """A counter of ``meta``."""
    return int(get(connection, name) or 0)


def put(connection: Connection, name: str, value: str | int) -> None:
    """Set a value of ``meta``."""
    if not connection.execute(update(meta).where(meta.c.name == name).values(value=str(value))).rowcount:
        connection.execute(insert(meta).values(name=name, value=str(value)))


def advance(connection: Connection, name: str) -> int:
    """Add one to a counter of ``meta`` and return it; the caller holds the write lock."""
    value = number(connection, name) + 1
    put(connection, name, value)
    return value


def _begin(connection: Connection, now: int) -> None:
    put(connection, "created", now)
    put(connection, "store_id", str(uuid.uuid4()))
    put(connection, "digest", "0" * 32)
    put(connection, "next_id", FIRST_ID)
    for counter in ("revision", "sequence"):
        put(connection, counter, 0)
