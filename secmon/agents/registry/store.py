"""The agent store of a node: one SQLite file, shared by the daemons of the node."""

import threading
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, insert, select, update

from secmon.agents.registry.schema import SCHEMA, meta
from secmon.common.clock import Clock, SystemClock
from secmon.common.sqlite.engine import read_transaction, write_transaction
from secmon.common.sqlite.schema import open_store

FIRST_ID = 1


class AgentStore:
    """Connections to the agents of a node. All calls block: coroutines call through ``asyncio.to_thread``.

    ``durable`` False gives up the last commits at a loss of power, never at a crash: right for states, which agents
    report again within seconds, wrong for the registry.
    """

    def __init__(self, path: Path, *, durable: bool = True, clock: Clock | None = None) -> None:
        """The store at ``path``; opened, and made if missing, at its first use: by then privileges are dropped."""
        self.path = path
        self._clock = clock or SystemClock()
        self._level: Literal["FULL", "NORMAL"] = "FULL" if durable else "NORMAL"
        self._opened: Engine | None = None
        self._lock = threading.Lock()

    def read(self) -> AbstractContextManager[Connection]:
        """One consistent view. Raises SecmonError 2012 for a file of another version."""
        return read_transaction(self._engine())

    def write(self) -> AbstractContextManager[Connection]:
        """One transaction that holds the write lock from its start; rolled back on any exception."""
        return write_transaction(self._engine())

    def revision(self) -> int:
        """Of the registry: grows with each change of an agent's key, address, name or groups."""
        with self.read() as connection:
            return number(connection, "revision")

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.dispose()
                self._opened = None

    def _engine(self) -> Engine:
        with self._lock:
            if self._opened is None:
                self._opened = _open(self.path, self._level, self._clock)
            return self._opened


def _open(path: Path, level: Literal["FULL", "NORMAL"], clock: Clock) -> Engine:
    now = int(clock.now().timestamp())
    return open_store(path, SCHEMA, synchronous=level, first_rows=lambda connection: _begin(connection, now))


def get(connection: Connection, name: str) -> str | None:
    """A value of ``meta``."""
    return connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar_one_or_none()


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
