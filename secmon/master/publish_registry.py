"""Announces revisions of the master's registry of agents to workers, and encodes the changes that they fetch."""

import asyncio
import logging
import sqlite3

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore, get, number
from secmon.agents.replica import changes_since
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.counters import Counters
from secmon.master.worker_session import Subscriber

log = logging.getLogger("secmon.clusterd.registry")


class RegistryPublisher:
    """Announces each revision; workers then fetch all changes since their own.

    A ``SessionListener``. Several daemons of the master write the registry, so the store is polled for its revision.
    """

    def __init__(
        self, store: AgentStore, *, counters: Counters, poll_seconds: float = 0.1, repeat_seconds: float = 10.0
    ) -> None:
        """``repeat_seconds``: between two announcements of the same revision, for workers that missed one."""
        self._store, self._counters = store, counters
        self._poll_seconds, self._repeat_seconds = poll_seconds, repeat_seconds
        self._sessions: list[Subscriber] = []
        self._position = pb.Position()
        self._version = -1  # of the store, when the position was read

    async def run(self) -> None:
        """Announce until cancelled."""
        loop = asyncio.get_running_loop()
        repeat_at = loop.time() + self._repeat_seconds
        while True:
            try:
                position = await self._current()
            except (OSError, sqlite3.Error, SQLAlchemyError) as error:
                self._counters.add("registry.publish_failures")
                log.error("The registry of agents could not be published: %s", error)
            else:
                if position != self._position or loop.time() >= repeat_at:
                    self._position = position
                    repeat_at = loop.time() + self._repeat_seconds
                    for session in self._sessions:
                        session.send(pb.MasterMessage(registry=position))
            await asyncio.sleep(self._poll_seconds)

    async def _current(self) -> pb.Position:
        """The position now: only after a commit is the store read."""
        if not self._position.epoch:
            return await asyncio.to_thread(self._read)  # opens the store
        version = self._store.version()
        if version == self._version:
            return self._position
        position = await asyncio.to_thread(self._read)
        self._version = version
        return position

    def position(self) -> pb.Position:
        """The position announced last; an empty epoch before the first."""
        return self._position

    def changes(self, source: str, since: int) -> bytes:
        """``RegistryChanges`` for a replica of ``source`` at revision ``since``, as msgpack. Blocks."""
        with self._store.read() as connection:
            same = source == get(connection, "store_id")
            return msgspec.msgpack.encode(changes_since(connection, since if same else None))

    def _read(self) -> pb.Position:
        with self._store.read() as connection:
            return pb.Position(
                epoch=get(connection, "store_id") or "",
                revision=number(connection, "revision"),
                digest=get(connection, "digest") or "",
            )

    # -- SessionListener

    def joined(self, session: Subscriber) -> None:
        self._sessions.append(session)
        if self._position.epoch:
            session.send(pb.MasterMessage(registry=self._position))

    def received(self, session: Subscriber, message: pb.WorkerMessage) -> None:
        """Acknowledgements are recorded by ``ClusterHealth``."""

    def left(self, session: Subscriber) -> None:
        self._sessions = [one for one in self._sessions if one is not session]
