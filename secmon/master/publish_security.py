"""Pushes changes of the master's security state and tracks acknowledgements (architecture.md, Replication)."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.counters import Counters
from secmon.master import generation_2
from secmon.master.worker_session import Subscriber
from secmon.security.store.replication import Change
from secmon.security.store.schema import SCHEMA

_log = logging.getLogger(__name__)


class Source(Protocol):
    """The master's security store, as the publisher uses it. All methods may block on the disk."""

    def revision(self) -> int: ...
    def store_id(self) -> str: ...
    def changes_since(self, revision: int) -> list[Change] | None: ...
    def digest(self) -> str: ...


class _Gap(NamedTuple):
    """What a replica lacks: the changes since ``base``, of the tables that its release knows."""

    base: int
    generation_2: bool


@dataclass
class _Replica:
    """A worker's replica: its position as reported (None: not yet), and the revision last pushed to it."""

    session: Subscriber
    position: pb.Position | None = None
    sent: int | None = None

    @property
    def base(self) -> int | None:
        """The revision to push from."""
        return self.position.revision if self.sent is None and self.position is not None else self.sent

    @property
    def gap(self) -> _Gap | None:
        earlier = self.session.protocol <= generation_2.GENERATION
        return None if self.base is None else _Gap(self.base, earlier)

    def acknowledged(self, epoch: str) -> int:
        """Revision of the store ``epoch`` that the replica has; -1: none."""
        return self.position.revision if self.position is not None and self.position.epoch == epoch != "" else -1


@dataclass(frozen=True)
class _State:
    """The store at one revision. ``digest`` is empty until it is computed."""

    epoch: str = ""
    revision: int = 0
    digest: str = ""


class SecurityPublisher:
    """Pushes committed changes to every session and collects acknowledgements.

    Listens to sessions (``joined``, ``received``, ``left``) and implements
    :class:`secmon.cluster.node.Acknowledgements`. :meth:`run` must run; everything is called on its event loop.
    """

    def __init__(
        self,
        store: Source,
        *,
        counters: Counters,
        ack_timeout_seconds: float = 2.0,
        poll_seconds: float = 0.25,
    ) -> None:
        self._store = store
        self._counters = counters
        self._ack_timeout_seconds = ack_timeout_seconds
        self._poll_seconds = poll_seconds
        self._replicas: list[_Replica] = []
        self._state = _State()
        self._due = asyncio.Event()
        self._progress = asyncio.Event()

    def publish(self) -> None:
        """Request a push of what was committed; returns at once."""
        self._due.set()

    async def run(self) -> None:
        """Push until cancelled. Commits of other processes, which do not call :meth:`publish`, are found by polling."""
        while True:
            try:
                await self._push_all()
            except (OSError, sqlite3.Error, SQLAlchemyError) as error:
                self._counters.add("security.publish_failures")
                _log.error("The security state could not be published: %s", error)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._due.wait()
            except TimeoutError:
                continue
            finally:
                self._due.clear()

    def position(self) -> pb.Position:
        """The position last published; an empty epoch before the first."""
        state = self._state
        return pb.Position(epoch=state.epoch, revision=state.revision, digest=state.digest, schema=SCHEMA.version)

    async def confirmed(self, revision: int) -> Sequence[str]:
        """See :class:`secmon.cluster.node.Acknowledgements`: names of the late workers, sorted.

        A worker whose session ends meanwhile is not waited for, but named unless it has joined again and acknowledged.
        """
        expected = {replica.session.name for replica in self._replicas}
        self.publish()
        try:
            async with asyncio.timeout(self._ack_timeout_seconds):
                while self._pending(expected, revision):
                    await self._progress.wait()
        except TimeoutError:
            self._counters.add("security.confirmations_late")
        return sorted(
            expected - {replica.session.name for replica in self._replicas if self._has_reached(replica, revision)}
        )

    def _pending(self, expected: set[str], revision: int) -> bool:
        return any(
            replica.session.name in expected and not self._has_reached(replica, revision) for replica in self._replicas
        )

    def _has_reached(self, replica: _Replica, revision: int) -> bool:
        return replica.acknowledged(self._state.epoch) >= revision

    # SessionTable

    def joined(self, session: Subscriber) -> None:
        self._replicas.append(_Replica(session))

    def left(self, session: Subscriber) -> None:
        self._replicas = [replica for replica in self._replicas if replica.session is not session]
        self._notify()

    def received(self, session: Subscriber, message: pb.WorkerMessage) -> None:
        """Acknowledgements and heartbeats carry positions; the first of a session is the base of the first push."""
        match message.WhichOneof("message"):
            case "security_ack":
                position = message.security_ack.position
            case "heartbeat" if message.heartbeat.HasField("security"):
                position = message.heartbeat.security
            case _:
                return
        replica = next((each for each in self._replicas if each.session is session), None)
        if replica is None:
            return
        replica.position = position
        if replica.sent is None:
            self.publish()
        self._notify()

    # Pushing

    async def _push_all(self) -> None:
        behind = {replica.gap for replica in self._replicas if replica.gap is not None}
        state, changes = await asyncio.to_thread(self._read, self._state, behind)
        self._state = state
        for replica in self._replicas:
            if replica.base is None or replica.gap not in changes:
                continue  # it joined during the read; the next round is already requested
            known = replica.sent is not None or replica.acknowledged(state.epoch) >= 0
            if replica.base != state.revision or not known:
                replica.session.send(
                    pb.MasterMessage(security=_push(state, replica.base, changes[replica.gap] if known else None))
                )
            replica.sent = state.revision
        self._notify()

    def _read(self, known: _State, behind: set[_Gap]) -> tuple[_State, dict[_Gap, bytes | None]]:
        """The state of the store, and the changes that fill the gaps in ``behind``, all at one revision."""
        epoch, revision = self._store.store_id(), self._store.revision()
        while True:
            unchanged = (epoch, revision) == (known.epoch, known.revision)
            # Hashing everything takes long: only when no change waits to be pushed.
            digest = known.digest or self._store.digest() if unchanged else ""
            changes = {gap: None if gap.base == revision else self._changes(gap) for gap in behind}
            now = self._store.revision()
            if now == revision:
                return _State(epoch, revision, digest), changes
            revision = now

    def _changes(self, gap: _Gap) -> bytes | None:
        found = self._store.changes_since(gap.base)
        if found is not None and gap.generation_2:
            found = generation_2.known_changes(found)
        encoded = msgspec.msgpack.encode(found) if found is not None else None
        return encoded if encoded is not None and len(encoded) <= PIECE_BYTES else None

    def _notify(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()


def _push(state: _State, base: int, leading: bytes | None) -> pb.SecurityPush:
    """A push of the changes that lead on from ``base``; without them the worker fetches a snapshot."""
    push = pb.SecurityPush(epoch=state.epoch, revision=state.revision, digest=state.digest)
    if leading is not None:
        push.base, push.changes = base, leading
    return push
