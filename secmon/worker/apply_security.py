"""Keeps the worker's replica of the security state equal to the master's (architecture.md, Replication)."""

import asyncio
import logging
import sqlite3
from collections import deque
from contextlib import suppress

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.security.store.position import Position
from secmon.security.store.replication import Change, Snapshot
from secmon.security.store.schema import SCHEMA
from secmon.security.store.security_store import SecurityStore
from secmon.worker.link_listener import Link
from secmon.worker.streams import reading_stream, replication

_log = logging.getLogger(__name__)

GENERATION_2_SCHEMA = 2
"""Version of the tables of masters that do not name it."""
SNAPSHOT_LIMIT = 1 << 30
"""Limit of a snapshot."""
_FAILURES = (SecmonError, OSError, SQLAlchemyError, sqlite3.Error, msgspec.MsgspecError)


class SecurityApplier:
    """Applies pushes in order, each in one transaction; fetches a snapshot when a push does not fit the replica.

    A ``LinkListener`` whose methods return at once; :meth:`run` does the work. Each applied change is acknowledged with
    the new position.

    A snapshot of another store than before is applied and logged at ERROR: workers must follow a master that was
    reinstalled, restored or replaced. A snapshot without users is refused: this node keeps its replica as long as the
    security lease lasts, which is not extended meanwhile.
    """

    def __init__(self, store: SecurityStore, *, retry_seconds: float = 1.0, retry_most_seconds: float = 30.0) -> None:
        self._store = store
        self._retry_seconds = retry_seconds
        self._retry_most_seconds = retry_most_seconds
        self._link: Link | None = None
        self._queue: deque[pb.SecurityPush | pb.Position] = deque()
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._stale = False
        self._mismatch: tuple[str, int, str, int] | None = None

    def position(self) -> pb.Position:
        """Position of the replica; the epoch is empty if it has received nothing. Takes microseconds."""
        position = self._store.position()
        return pb.Position(epoch=position.store_id, revision=position.revision)

    async def wait_for(self, revision: int, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until this node has at least ``revision``; return whether it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._store.revision() < revision:
                    await self._progress.wait()
        return self._store.revision() >= revision

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        """Report the position to the master, which pushes from there."""
        self._link = link
        self._queue.clear()
        self._mismatch = None
        self._acknowledge()

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        match message.WhichOneof("message"):
            case "security":
                self._queue.append(message.security)
            case "heartbeat" if message.heartbeat.security.epoch:
                self._queue.append(message.heartbeat.security)
            case _:
                return
        self._wake.set()

    async def disconnected(self, reason: str) -> None:
        self._link = None
        self._queue.clear()

    async def run(self) -> None:
        """Apply until cancelled. After a failure a snapshot is fetched, after growing pauses."""
        pause = self._retry_seconds
        self._wake.set()  # a previous run may have ended with work left
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._drain_queue()
                pause = self._retry_seconds
            except _FAILURES as error:
                self._stale = True
                _log.warning("The security state could not be brought up to date: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._retry_most_seconds)
                self._wake.set()

    async def _drain_queue(self) -> None:
        while self._link is not None and (self._queue or self._stale):
            if self._stale:
                await self._fetch_snapshot(self._link)
                self._stale = False
            elif isinstance(item := self._queue.popleft(), pb.SecurityPush):
                await self._apply_push(item)
            else:
                await self._compare(item)

    async def _apply_push(self, push: pb.SecurityPush) -> None:
        own = self._store.position()
        if (own.store_id, own.revision) == (push.epoch, push.revision):
            self._acknowledge()
        elif not push.changes or (own.store_id, own.revision) != (push.epoch, push.base):
            if own.store_id != push.epoch or own.revision < push.revision or not push.changes:
                self._stale = True  # else the push is older than a snapshot fetched meanwhile
        else:
            changes = msgspec.msgpack.decode(push.changes, type=list[Change])
            try:
                await asyncio.to_thread(self._store.apply_changes, push.epoch, push.base, changes, push.revision)
            except SecmonError as error:
                _log.warning("The changes to revision %d do not fit: %s; fetching a snapshot", push.revision, error)
                self._stale = True
            else:
                self._acknowledge()

    async def _compare(self, master: pb.Position) -> None:
        """Anti-entropy: equal revisions must have equal digests. A heartbeat comes after its pushes."""
        own = self._store.position()
        if (own.store_id, own.revision) != (master.epoch, master.revision):
            mismatch = (own.store_id, own.revision, master.epoch, master.revision)
            self._stale = mismatch == self._mismatch  # the second time no push is on its way
            self._mismatch = mismatch
            return
        self._mismatch = None
        if not master.digest or (master.schema or GENERATION_2_SCHEMA) != SCHEMA.version:
            return  # nothing to compare: while the releases differ, so do the columns that digests are of
        digest = await asyncio.to_thread(self._store.digest)
        if digest != master.digest and self._store.revision() == own.revision:
            _log.warning("The security state differs from the master's at revision %d; fetching all", own.revision)
            self._stale = True

    async def _fetch_snapshot(self, link: Link) -> None:
        document = bytearray()
        async with reading_stream(link) as timer:
            async for piece in replication(link).FetchSecurity(pb.SecurityRequest()):
                document += piece.data
                if len(document) > SNAPSHOT_LIMIT:
                    raise SecmonError(3045, f"snapshot of more than {SNAPSHOT_LIMIT} bytes")
                timer.progress()
        snapshot = await asyncio.to_thread(msgspec.msgpack.decode, bytes(document), type=Snapshot)
        before = self._store.position()
        await asyncio.to_thread(self._store.apply_snapshot, snapshot)
        _log_snapshot(before, snapshot)
        self._mismatch = None
        self._acknowledge()

    def _acknowledge(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()
        if self._link is not None:
            with suppress(SecmonError):  # the session has ended; the next one begins with the position
                self._link.send(pb.WorkerMessage(security_ack=pb.SecurityAck(position=self.position())))


def _log_snapshot(before: Position, taken: Snapshot) -> None:
    """Log an applied snapshot; at ERROR if it is not a later revision of the same store."""
    if before.store_id not in ("", taken.store_id):
        _log.error(
            "The master has another security store: this node had store %s at revision %d and has now applied store %s "
            "at revision %d with its users. This is expected if the master was reinstalled, replaced or promoted; "
            "otherwise check the master",
            before.store_id,
            before.revision,
            taken.store_id,
            taken.revision,
        )
    elif before.store_id and taken.revision < before.revision:
        _log.error(
            "The master's security store %s went back from revision %d to %d, and this node with it. This is expected "
            "if the master was restored from a backup; all changes since then, revocations too, are undone",
            taken.store_id,
            before.revision,
            taken.revision,
        )
    else:
        _log.info("Security state replaced by a snapshot at revision %d", taken.revision)
