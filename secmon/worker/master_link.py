"""A worker's link to the master::

    no certificate --enrol--> disconnected --join--> connected --end of session--> disconnected
          ^                        |
          +---- refused TLS sessions, expired or damaged certificate

Every failure ends the attempt; after a pause (exponential back-off with jitter) the next one starts at the first state
that does not hold.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import grpc
from grpc import aio

from secmon import API_VERSION
from secmon.cluster.leadership.known_term import NO_TERMS, KnownTerm
from secmon.cluster.node import Member
from secmon.cluster.rpc import proof, version
from secmon.cluster.rpc.certificates import MASTER_NAME, fingerprint
from secmon.cluster.rpc.credentials import channel_credentials, open_channel
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.replica_positions import Positions
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.logfile.trouble_log import TroubleLog
from secmon.worker.enrol import enrol
from secmon.worker.find_master import MasterSearch
from secmon.worker.lease_extension import LeaseExtender
from secmon.worker.link_listener import LinkListener
from secmon.worker.master_session import JoinCall, MasterSession
from secmon.worker.reconnect_backoff import ReconnectBackoff

log = logging.getLogger("secmon.clusterd.link")

PROBE_SECONDS = 3.0
"""For a TCP connection alone, whose first packet may be lost and is repeated after a second. It is shorter than gRPC's
limit for a connection, so that a link is used soon after it is restored."""
JOIN_ROUND_TRIPS = 4
"""Connection, TLS session, HTTP/2 settings, greeting."""
REFUSED_HANDSHAKES_BEFORE_ENROLMENT = 3
"""Refused TLS sessions in a row after which the worker enrols again. TLS alerts carry no reason; enrolment does."""


class MasterLink:
    """The link of one worker. Implements :class:`secmon.cluster.node.Membership` too.

    ``listeners`` are called about sessions and messages in order. Used on the event loop only.
    """

    def __init__(
        self,
        *,
        settings: LinkSettings,
        keystore: Keystore,
        clock: Clock,
        peer_port: Callable[[], int],
        positions: Positions,
        lease: LeaseExtender | None = None,
        active_agents: Callable[[], int] = lambda: 0,
        node_version: str = API_VERSION,
        rng: random.Random | None = None,
        known: KnownTerm = NO_TERMS,
        search: MasterSearch | None = None,
    ) -> None:
        """``search`` says before each attempt where the master is; ``settings`` say it without one."""
        self.listeners: list[LinkListener] = []
        self.connected = asyncio.Event()
        self.sessions = 0
        """Begun so far."""
        self.reason = "not connected yet"
        """Why the last session or attempt ended; with the code if the master refused."""
        self.refusal: SecmonError | None = None
        """The master's latest refusal, until a join succeeds."""
        self._settings, self._keystore, self._clock = settings, keystore, clock
        self._peer_port, self._positions, self._lease = peer_port, positions, lease
        self._active_agents, self._version, self._known = active_agents, node_version, known
        self._search = search
        self._backoff = ReconnectBackoff(
            settings.reconnect_min_seconds, settings.reconnect_max_seconds, rng or random.SystemRandom()
        )
        self._session: MasterSession | None = None
        self._members: tuple[Member, ...] = ()
        self._refused_handshakes = 0
        self._trouble = TroubleLog(log)
        self._closing: set[asyncio.Task[None]] = set()

    # For other parts of the node

    @property
    def channel(self) -> aio.Channel | None:
        """See ``link_listener.Link``."""
        return self._session.channel if self._session and self.connected.is_set() else None

    async def wait_connected(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a session; return whether there is one."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.connected.wait(), timeout)
        return self.connected.is_set()

    def send(self, message: pb.WorkerMessage) -> None:
        """See ``link_listener.Link``."""
        if self._session is None or not self.connected.is_set():
            raise SecmonError(3023)
        self._session.send(message)

    def heard(self) -> None:
        """See ``link_listener.Link``."""
        if self._session is not None:
            self._session.heard()

    def members(self) -> Sequence[Member]:
        """The connected nodes, as the master sent them last."""
        return self._members

    def absent(self) -> Sequence[str]:
        """Always empty: only the master knows."""
        return ()

    # Sessions

    async def run(self) -> None:
        """Maintain the link until cancelled. No attempt is made while no node is known to be the master."""
        if not self._settings.master:
            self.reason = "no node is known to be the master"
            await asyncio.Event().wait()
        while True:
            try:
                await self._attempt()
            except (SecmonError, OSError) as error:  # OSError: a certificate could not be stored
                self.reason = str(error)
                self._trouble.note("no session with the master %s: %s", self._settings.master, error)
            pause = self._backoff.next()
            log.debug("next attempt in %.2f s", pause)
            await asyncio.sleep(pause)

    async def leave(self, reason: str) -> None:
        """Send the master the reason and end the session. Cancel :meth:`run` afterwards: it would start another one."""
        if self._session:
            await self._session.leave(reason)

    async def finish(self) -> None:
        """Wait until the sessions that have ended are closed. Call it when :meth:`run` is cancelled."""
        await asyncio.gather(*self._closing)

    async def _attempt(self) -> None:
        """One session, from certificate to end. Raises SecmonError if there was none."""
        if self._search is not None:
            self._settings = await self._search.find()
        defect = self._keystore.defect()
        if defect is None and self._refused_handshakes >= REFUSED_HANDSHAKES_BEFORE_ENROLMENT:
            defect = f"session refused: {self.reason}"
        if defect:
            self._refused_handshakes = 0
            await self._enrol(defect)
        session = await self._join()
        if self._search is not None:
            await self._search.joined(session.welcome.master, self._settings)
        self._set_refusal(None)
        self._refused_handshakes = 0
        self._backoff.reset()
        await self._run_session(session)

    async def _enrol(self, defect: str) -> None:
        try:
            await enrol(self._settings, self._keystore, self._clock, self._hello(), defect)
        except SecmonError as error:
            if error.code != 3023:
                self._set_refusal(error)
            raise

    def _set_refusal(self, refusal: SecmonError | None) -> None:
        self.refusal = refusal
        if self._lease:
            self._lease.refused(refusal.code if refusal else None)

    async def _join(self) -> MasterSession:
        credentials = self._keystore.current
        assert credentials is not None, "enrolled before joining"
        settings = self._settings
        await self._probe_port()
        started = self._clock.monotonic()
        trusted = channel_credentials(credentials)
        channel = open_channel(settings.master, settings.port, trusted, MASTER_NAME)
        hello = self._hello()
        hello.proof = proof.join(settings.key, hello, fingerprint(credentials.certificate))
        try:
            call = pb_grpc.MembershipStub(channel).Join(None)
            answer = await self._exchange_hello(call, hello)
            if answer.HasField("refusal"):
                refusal = SecmonError(answer.refusal.code, answer.refusal.reason)
                self._set_refusal(refusal)
                raise refusal
            round_trip = (self._clock.monotonic() - started) / JOIN_ROUND_TRIPS
            self._check_version(answer.welcome.master)
            self._check_term(answer.welcome.master)
        except BaseException:
            await channel.close(None)
            raise
        return MasterSession(
            control=channel,
            channel=open_channel(settings.master, settings.port, trusted, MASTER_NAME),
            call=call,
            welcome=answer.welcome,
            settings=settings,
            keystore=self._keystore,
            clock=self._clock,
            positions=self._positions,
            active_agents=self._active_agents,
            lease=self._lease,
            round_trip=round_trip,
            known=self._known,
        )

    async def _exchange_hello(self, call: JoinCall, hello: pb.NodeHello) -> pb.MasterMessage:
        """Send the hello message, return the answer. Raises SecmonError 3023; counts refused TLS sessions."""
        where = f"{self._settings.master}:{self._settings.port}"
        try:
            async with asyncio.timeout(self._settings.join_timeout_seconds):
                await call.write(pb.WorkerMessage(hello=hello))
                answer = await call.read()
        except TimeoutError:
            raise SecmonError(3023, f"{where}: no answer") from None
        except (aio.AioRpcError, asyncio.InvalidStateError):  # the second if the call failed before the write
            if await call.code() is grpc.StatusCode.UNAVAILABLE:
                # A lost connection or a refused TLS session. If the port accepts connections, it was the latter.
                await self._probe_port()
                self._refused_handshakes += 1
            raise SecmonError(3023, f"{where}: {await call.details()}") from None
        if not isinstance(answer, pb.MasterMessage):
            raise SecmonError(3023, f"{where}: closed at once")
        return answer

    async def _probe_port(self) -> None:
        """Raise SecmonError 3023 unless the cluster port accepts connections."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _, writer = await asyncio.open_connection(self._settings.master, self._settings.port)
        except (OSError, TimeoutError) as error:
            reason = "no answer" if isinstance(error, TimeoutError) else error
            raise SecmonError(3023, f"{self._settings.master}:{self._settings.port}: {reason}") from None
        writer.transport.abort()

    async def _run_session(self, session: MasterSession) -> None:
        self._session = session
        self.sessions += 1
        self._take_members(session.welcome.members)
        self.connected.set()
        self._trouble.over()
        log.info("joined cluster %s at %s", session.welcome.master.cluster_name, self._settings.master)
        try:
            await session.serve(self._notify_connected, self._notify_received)
        finally:
            self.connected.clear()
            self._session = None
            self.reason = session.reason or "this node stops"
            log.info("the session with the master ended: %s", self.reason)
            closing = asyncio.create_task(session.close(), name="end of a session")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            for listener in self.listeners:
                await listener.disconnected(self.reason)

    async def _notify_connected(self, welcome: pb.Welcome) -> None:
        for listener in self.listeners:
            await listener.connected(self, welcome)

    async def _notify_received(self, message: pb.MasterMessage) -> None:
        if message.HasField("members"):
            self._take_members(message.members)
        for listener in self.listeners:
            await listener.received(self, message)

    def _take_members(self, members: pb.Members) -> None:
        self._members = tuple(
            Member(name=m.name, type="master" if m.type == "master" else "worker", version=m.version, ip=m.ip)
            for m in members.members
        )

    def _check_version(self, master: pb.NodeHello) -> None:
        """Raises SecmonError 3031, and notes it, for a master that speaks other generations of the link."""
        if not version.compatible(master.protocol, master.min_protocol):
            theirs = version.spoken(master.protocol, master.min_protocol)
            ours = version.spoken(version.PROTOCOL, version.MIN_PROTOCOL)
            refusal = SecmonError(3031, f"the master ({master.version}) speaks {theirs} of the link, this node {ours}")
            self._set_refusal(refusal)
            raise refusal

    def _check_term(self, master: pb.NodeHello) -> None:
        """Raises SecmonError 3054 for a master whose term is over."""
        if self._known.number > master.term:
            raise SecmonError(3054, f"{master.node_name} holds term {master.term}, term {self._known.number} has begun")

    def _hello(self) -> pb.NodeHello:
        return pb.NodeHello(
            node_name=self._settings.node_name,
            cluster_name=self._settings.cluster_name,
            version=self._version,
            protocol=version.PROTOCOL,
            min_protocol=version.MIN_PROTOCOL,
            installation_id=self._keystore.identity.installation_id,
            peer_port=self._peer_port(),
            clock=self._clock.now().timestamp(),
            term=self._known.number,
            address=self._settings.address,
        )
