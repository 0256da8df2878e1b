"""The connected workers. Executes what :mod:`secmon.master.membership` decides."""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from grpc import aio

from secmon.cluster.node import Member
from secmon.cluster.rpc.credentials import peer_identity
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.replica_positions import Positions
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.master import generation_2, membership
from secmon.master.known_nodes import KnownNodes
from secmon.master.mastership import Terms
from secmon.master.membership import (
    Admit,
    Close,
    Forget,
    Instant,
    KnownNode,
    MembershipRules,
    MembershipView,
    Refuse,
    Transition,
)
from secmon.master.worker_session import SessionListener, WorkerSession

log = logging.getLogger("secmon.clusterd.membership")


_LAST_SEEN_SECONDS = 3600.0  # between two updates of when connected workers were last seen


class SessionTable:
    """All open sessions in the order of their joins. Implements :class:`secmon.cluster.node.Membership`."""

    def __init__(
        self,
        *,
        rules: MembershipRules,
        clock: Clock,
        master: Member,
        known: KnownNodes,
        positions: Positions,
        terms: Terms,
    ) -> None:
        self.rules = rules
        self.listeners: list[SessionListener] = []
        self._clock, self._master, self._known, self._positions = clock, master, known, positions
        self._terms = terms
        self._serials = itertools.count(1)
        self._sessions: dict[int, WorkerSession] = {}
        self._last_seen_recorded = clock.monotonic()
        self._changed = False

    # Queries

    def members(self) -> Sequence[Member]:
        """See ``cluster.node.Membership``."""
        workers = [Member(name=s.name, type="worker", version=s.version, ip=s.address) for s in self._sessions.values()]
        return [self._master, *workers]

    def absent(self) -> Sequence[str]:
        """Expected workers that are not connected."""
        return [node.name for node in self.absent_workers()]

    def absent_workers(self) -> Sequence[KnownNode]:
        """Expected workers that are not connected, by name."""
        connected = {session.name for session in self._sessions.values()}
        return sorted((node for node in self._known.all() if node.name not in connected), key=lambda node: node.name)

    def all(self) -> Sequence[WorkerSession]:
        """Open sessions in the order of their joins."""
        return list(self._sessions.values())

    def get(self, name: str) -> WorkerSession | None:
        return next((session for session in self._sessions.values() if session.name == name), None)

    def has_address(self, address: str) -> bool:
        """Whether a worker of the cluster, connected or expected, has ``address``."""
        return any(node.ip == address for node in self._known.all())

    def caller(self, context: aio.ServicerContext[Any, Any]) -> WorkerSession:
        """The open session of the calling node. Raises SecmonError 3042 (no valid certificate) or 3022 (no session).

        Every service for workers checks this first: a certificate without a session gives no access. A call is a sign
        of life too, as heartbeats may be late behind a large report.
        """
        identity = peer_identity(context)
        session = self.get(identity.name)
        if session is None or session.installation_id != identity.installation_id:
            raise SecmonError(3022, f"{identity.name} has no session", ids=(identity.name,))
        session.last_heard = self._clock.monotonic()
        return session

    def name_conflict(self, candidate: membership.Candidate) -> tuple[int, str] | None:
        """Code and reason if an open session of another installation has the candidate's name."""
        return membership.name_conflict(candidate, self._snapshot().sessions)

    # Transitions

    def next_serial(self) -> int:
        """A new number for a candidate."""
        return next(self._serials)

    def admit(
        self, candidate: membership.Candidate, peer_port: int, welcome: Callable[[], pb.Welcome]
    ) -> WorkerSession:
        """Open a session and close the one that it replaces. Raises SecmonError with the code of the refusal."""
        admitted: WorkerSession | None = None
        for transition in self._decide(candidate):
            match transition:
                case Refuse(_, code, reason):
                    raise SecmonError(code, reason)
                case Admit():
                    admitted = self._open(candidate, peer_port, transition.reason)
                case _:
                    self._execute(transition)
        assert admitted is not None, "a candidate is admitted or refused"
        admitted.send(pb.MasterMessage(welcome=welcome()))
        for listener in self.listeners:
            listener.joined(admitted)
        self._changed = True
        return admitted

    def tick(self) -> None:
        """Close silent sessions, forget absent nodes, announce changes; called at every heartbeat interval."""
        for transition in self._decide():
            self._execute(transition)
        if self._changed:
            self._changed = False
            self._announce_members()
        if self._clock.monotonic() - self._last_seen_recorded >= _LAST_SEEN_SECONDS:
            self._last_seen_recorded = self._clock.monotonic()
            for session in self._sessions.values():
                self._record_last_seen(session)

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        """Any message is a sign of life. Heartbeats are answered with the master's positions."""
        session.last_heard = self._clock.monotonic()
        if message.HasField("heartbeat"):
            try:
                self._terms.require_current(message.heartbeat.term, session.name)
            except SecmonError as error:
                session.close(str(error))
                return
            session.round_trip = max(0.0, message.heartbeat.round_trip)
            self._record_clock(session, message.heartbeat.clock)
            security, files = self._positions()
            if session.protocol <= generation_2.GENERATION:
                security = generation_2.known_position(security)
            heartbeat = pb.MasterHeartbeat(
                clock=self._clock.now().timestamp(),
                sequence=message.heartbeat.sequence,
                security=security,
                files=files,
                unproved=self._terms.unproved,
            )
            session.send(pb.MasterMessage(heartbeat=heartbeat))
        for listener in self.listeners:
            listener.received(session, message)

    def _record_clock(self, session: WorkerSession, clock: float) -> None:
        """Log the first skew beyond the limit; the next :meth:`tick` closes the session."""
        session.record_skew(clock - self._clock.now().timestamp())
        skew = session.skew
        if not abs(skew) <= self.rules.max_skew and not session.clock_reported:
            session.clock_reported = True
            log.warning("the clock of worker %s differs by %.1f s: synchronise the clocks (NTP)", session.name, skew)

    def remove(self, session: WorkerSession) -> None:
        """Remove a closed session; further calls have no effect."""
        if self._sessions.pop(session.candidate.serial, None) is None:
            return
        log.info("worker %s is gone: %s", session.name, session.reason)
        self._record_last_seen(session)
        for listener in self.listeners:
            listener.left(session)
        self._changed = True

    def close_all(self, reason: str) -> None:
        """Close every session with ``reason``."""
        for session in self.all():
            session.close(reason)

    def _decide(self, *candidates: membership.Candidate) -> list[Transition]:
        snapshot = replace(self._snapshot(), candidates=candidates)
        return membership.decide(snapshot, Instant(self._clock.now(), self._clock.monotonic()))

    def _snapshot(self) -> MembershipView:
        sessions = tuple(session.connected() for session in self._sessions.values())
        return MembershipView(rules=self.rules, sessions=sessions, known=self._known.all())

    def _execute(self, transition: Transition) -> None:
        match transition:
            case Close(connected, reason):
                session = self._sessions[connected.serial]
                session.close(reason)
                self.remove(session)
            case Forget(name, reason):
                log.info("no longer expecting worker %s: %s", name, reason)
                self._known.forget(name)

    def _open(self, candidate: membership.Candidate, peer_port: int, reason: str) -> WorkerSession:
        session = WorkerSession(
            candidate, peer_port=peer_port, now=self._clock.now(), monotonic=self._clock.monotonic()
        )
        self._sessions[candidate.serial] = session
        self._record_last_seen(session)
        log.info("worker %s", reason)
        return session

    def _record_last_seen(self, session: WorkerSession) -> None:
        seen, (ip, address) = self._clock.now(), (session.ip, session.address)
        self._known.put(KnownNode(name=session.name, version=session.version, ip=ip, last_seen=seen, address=address))

    def _announce_members(self) -> None:
        """Send the members to all workers. At most once per interval, so that many joins at once cost few messages."""
        members = self.members_message()
        for session in self._sessions.values():
            session.send(pb.MasterMessage(members=members))

    def members_message(self) -> pb.Members:
        """The members, as a message to workers."""
        return pb.Members(
            members=[pb.Member(name=m.name, type=m.type, version=m.version, ip=m.ip) for m in self.members()]
        )
