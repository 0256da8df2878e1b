"""The Membership service: joining and certificate renewal."""

import asyncio
from collections.abc import AsyncIterator

import grpc
from grpc import aio

from secmon.cluster.rpc import proof, version
from secmon.cluster.rpc.certificates import PeerIdentity, fingerprint, request_key
from secmon.cluster.rpc.credentials import peer_address, peer_certificate, peer_identity
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.master.authority import Authority
from secmon.master.candidates import candidate_of
from secmon.master.mastership import Terms
from secmon.master.refusal_log import RefusalLog
from secmon.master.session_table import SessionTable
from secmon.master.worker_session import MAX_MESSAGE_BYTES, JoinContext, WorkerSession


class MembershipService(pb_grpc.MembershipServicer):
    """Opens sessions for workers with valid certificate, proof of the cluster key and hello message."""

    def __init__(
        self,
        *,
        settings: LinkSettings,
        clock: Clock,
        node_version: str,
        authority: Authority,
        sessions: SessionTable,
        refusals: RefusalLog,
        terms: Terms,
    ) -> None:
        self._settings, self._clock, self._version = settings, clock, node_version
        self._authority, self._sessions, self._refusals = authority, sessions, refusals
        self._terms = terms

    async def Join(  # type: ignore[override]  # a coroutine that writes to its context: the stubs know generators only
        self, request_iterator: AsyncIterator[pb.WorkerMessage], context: JoinContext
    ) -> None:
        """Serve one worker until either side ends the session."""
        try:
            first = await asyncio.wait_for(anext(request_iterator), self._settings.join_timeout_seconds)
        except (TimeoutError, StopAsyncIteration):
            return
        hello = first.hello
        if first.ByteSize() > MAX_MESSAGE_BYTES:
            return
        try:
            session = self._admit_worker(hello, context)
        except SecmonError as error:
            self._refusals.record(error, name=hello.node_name, ip=peer_address(context), proved=True)
            refusal = pb.Refusal(code=error.code, reason=error.extra or "")
            await context.write(pb.MasterMessage(refusal=refusal))
            return
        self._refusals.accepted(name=session.name, ip=session.ip)
        try:
            await session.serve(
                request_iterator,
                context,
                self._sessions.received,
                max_per_second=self._settings.max_messages_per_second,
            )
        finally:
            self._sessions.remove(session)

    def _admit_worker(self, hello: pb.NodeHello, context: JoinContext) -> WorkerSession:
        identity = peer_identity(context)
        if (identity.name, identity.installation_id) != (hello.node_name, hello.installation_id):
            raise SecmonError(3042, f"it is of {identity.name}, the node's name is {hello.node_name[:64]!r}")
        expected = proof.join(self._settings.key, hello, fingerprint(peer_certificate(context)))
        if not proof.verify(expected, hello.proof):
            raise SecmonError(3025, f"of node {identity.name}")
        self._terms.require_current(hello.term, identity.name)
        if not 0 < hello.peer_port < 65536:
            raise SecmonError(3004, f"peer_port: {hello.peer_port} is not a port")
        candidate = candidate_of(
            hello, ip=peer_address(context), serial=self._sessions.next_serial(), clock=self._clock
        )
        return self._sessions.admit(candidate, hello.peer_port, self._welcome)

    def _welcome(self) -> pb.Welcome:
        master = pb.NodeHello(
            node_name=self._settings.node_name,
            cluster_name=self._settings.cluster_name,
            version=self._version,
            protocol=version.PROTOCOL,
            min_protocol=version.MIN_PROTOCOL,
            clock=self._clock.now().timestamp(),
            term=self._terms.term,
        )
        heartbeat = round(self._settings.heartbeat_seconds * 1000)
        return pb.Welcome(master=master, members=self._sessions.members_message(), heartbeat_ms=heartbeat)

    async def Renew(
        self, request: pb.RenewRequest, context: aio.ServicerContext[pb.RenewRequest, pb.RenewReply]
    ) -> pb.RenewReply:
        """Sign a new certificate for a connected worker, with the same names."""
        try:
            session = self._sessions.caller(context)
            identity = PeerIdentity(session.name, session.installation_id, is_master=False)
            certificate = self._authority.sign(request_key(request.csr), identity)
        except SecmonError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        return pb.RenewReply(certificate=certificate, authority=self._authority.pem)
