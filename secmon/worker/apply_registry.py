"""Keeps the worker's replica of the registry of agents equal to the master's (cluster.md 4.4, 4.5)."""

import asyncio
import logging
import sqlite3
from contextlib import suppress

import msgspec
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import Diverged, Position, RegistryChanges, apply_changes, position
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.worker.link_listener import Link
from secmon.worker.streams import reading_stream, replication

log = logging.getLogger("secmon.clusterd.registry")

MOST_BYTES = 1 << 30
"""Limit of one answer."""
RETRY_SECONDS = 1.0
RETRY_MOST_SECONDS = 30.0
_FAILURES = (SecmonError, OSError, SQLAlchemyError, sqlite3.Error, msgspec.MsgspecError, Diverged)


class RegistryApplier:
    """Fetches changes whenever the master announces another position; :meth:`run` does the work.

    Equal revisions with different digests mean that the replica is damaged: the whole registry is fetched.
    """

    def __init__(self, store: AgentStore) -> None:
        self._store = store
        self._link: Link | None = None
        self._target: pb.Position | None = None
        self._wake = asyncio.Event()
        self.revision = 0
        """Of the replica, as read last."""

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        self._link, self._target = link, None

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        if message.HasField("registry"):
            self._target = message.registry
            self._wake.set()

    async def disconnected(self, reason: str) -> None:
        self._link = self._target = None

    async def run(self) -> None:
        """Apply until cancelled; failures are retried after growing pauses."""
        pause = RETRY_SECONDS
        self._wake.set()  # a previous run may have ended with work left
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._catch_up()
                pause = RETRY_SECONDS
            except _FAILURES as error:
                log.warning("The registry of agents could not be brought up to date: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_MOST_SECONDS)
                self._wake.set()

    async def _catch_up(self) -> None:
        while (target := self._target) is not None and (link := self._link) is not None:
            here = await asyncio.to_thread(self._position)
            self.revision = here.revision
            if (here.source, here.revision, here.digest) == (target.epoch, target.revision, target.digest):
                self._acknowledge(link, here)
                return
            if here.source == target.epoch and here.revision > target.revision:
                return  # a newer announcement is on its way
            whole = here.source != target.epoch or here.revision == target.revision
            if whole and here.source == target.epoch:
                log.warning("The registry differs from the master's at revision %d; fetching all of it", here.revision)
            await self._fetch(link, "" if whole else here.source, here.revision)

    async def _fetch(self, link: Link, source: str, since: int) -> None:
        request = pb.RegistryRequest(source=source, since=since)
        document = bytearray()
        async with reading_stream(link) as timer:
            async for piece in replication(link).FetchRegistry(request):
                document += piece.data
                if len(document) > MOST_BYTES:
                    raise SecmonError(3045, f"registry of more than {MOST_BYTES} bytes")
                timer.progress()
        changes = await asyncio.to_thread(msgspec.msgpack.decode, bytes(document), type=RegistryChanges)
        try:
            await asyncio.to_thread(self._apply, changes)
        except Diverged as error:
            if changes.since is None:
                raise
            log.warning("The registry's changes do not fit: %s; fetching all of it", error)
            await self._fetch(link, "", 0)

    def _position(self) -> Position:
        with self._store.read() as connection:
            return position(connection)

    def _apply(self, changes: RegistryChanges) -> None:
        with self._store.write() as connection:
            held = connection.execute(select(func.count()).select_from(agents)).scalar_one()
            if held and not changes.entries and not changes.tombstones and changes.since is None:
                raise SecmonError(3045, f"the master's registry is empty; this node keeps its {held} agents")
            apply_changes(connection, changes)
        if changes.since is None:
            log.info("Registry of %d agents replaced", len(changes.entries))

    def _acknowledge(self, link: Link, here: Position) -> None:
        ack = pb.Position(epoch=here.source, revision=here.revision, digest=here.digest)
        with suppress(SecmonError):  # the session has ended; the next one begins with an announcement
            link.send(pb.WorkerMessage(registry_ack=ack))
