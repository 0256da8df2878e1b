"""The Enrolment service: a node that proves the cluster key gets its certificate.

The port is open to everyone. So cheap checks come first, only the latest refusal of each address is kept of requests
without a valid proof, and a valid proof is never delayed by failures from the same address.
"""

import logging

import grpc
from grpc import aio

from secmon.cluster.rpc import proof, version
from secmon.cluster.rpc.certificates import PeerIdentity, fingerprint, request_key
from secmon.cluster.rpc.credentials import peer_address
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.common.accept.limiter import AcceptLimits
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.master.authority import Authority
from secmon.master.candidates import candidate_of, require_eligible
from secmon.master.failure_backoff import FailureBackoff
from secmon.master.mastership import Terms
from secmon.master.refusal_log import RefusalLog
from secmon.master.session_table import SessionTable

log = logging.getLogger("secmon.clusterd.enrolment")

MAX_MESSAGE_BYTES = 64 * 1024
CALLS_PER_CONNECTION = 1
LIMITS = AcceptLimits(total=256, reserved=96, per_address=128)
"""They bound the number of concurrent calls too."""
CONNECTION_SECONDS = 30.0
"""From ``accept`` to the answer; an enrolment takes a fraction of a second."""
NONCE_BYTES = 32


class EnrolmentService(pb_grpc.EnrolmentServicer):
    """Signs certificates for workers that prove the cluster key."""

    def __init__(
        self,
        *,
        settings: LinkSettings,
        clock: Clock,
        keystore: Keystore,
        authority: Authority,
        sessions: SessionTable,
        refusals: RefusalLog,
        counters: Counters,
        terms: Terms,
    ) -> None:
        self._settings, self._clock, self._keystore = settings, clock, keystore
        self._authority, self._sessions, self._refusals = authority, sessions, refusals
        self._counters, self._throttle, self._terms = counters, FailureBackoff(clock), terms

    async def Enrol(
        self, request: pb.EnrolRequest, context: aio.ServicerContext[pb.EnrolRequest, pb.EnrolReply]
    ) -> pb.EnrolReply:
        """Answer with a certificate, or with code and reason of the refusal."""
        ip, name = peer_address(context), request.hello.node_name
        proved = self._has_valid_proof(request)
        if not proved:
            self._counters.add("cluster.enrolment.unproved")
            pause = self._throttle.paused(ip)
            self._throttle.failed(ip)
            if pause:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, f"too many failed attempts, try again in {pause:.0f} s"
                )
        try:
            enrolled = self._enrol(request, ip, proved=proved)
        except SecmonError as error:
            self._refusals.record(error, name=name, ip=ip, proved=proved)
            return pb.EnrolReply(refusal=pb.Refusal(code=error.code, reason=error.extra or ""))
        self._throttle.succeeded(ip)
        log.info("node %s (%s) from %s got a certificate: %r", name, request.hello.version, ip, request.reason[:200])
        return pb.EnrolReply(enrolled=enrolled)

    def _has_valid_proof(self, request: pb.EnrolRequest) -> bool:
        """Whether the proof is of the cluster key and of this server's certificate: there is no relay."""
        current = self._keystore.current
        if current is None or len(request.nonce) != NONCE_BYTES:
            return False
        expected = proof.enrolment(self._settings.key, request, fingerprint(current.certificate))
        return proof.verify(expected, request.proof)

    def _enrol(self, request: pb.EnrolRequest, ip: str, *, proved: bool) -> pb.Enrolled:
        hello = request.hello
        if not version.compatible(hello.protocol, hello.min_protocol):  # its proof may have another form
            theirs = version.spoken(hello.protocol, hello.min_protocol)
            ours = version.spoken(version.PROTOCOL, version.MIN_PROTOCOL)
            raise SecmonError(3031, f"the node speaks {theirs} of the link, the master {ours}")
        if not proved:
            raise SecmonError(3025, "the keys differ, or the connection between the nodes is intercepted")
        candidate = candidate_of(hello, ip=ip, serial=0, clock=self._clock)
        require_eligible(candidate, self._sessions.rules)
        self._terms.require_current(hello.term, candidate.name)
        name_conflict = self._sessions.name_conflict(candidate)
        if name_conflict:
            raise SecmonError(*name_conflict)
        identity = PeerIdentity(candidate.name, candidate.installation_id, is_master=False)
        certificate = self._authority.sign(request_key(request.csr), identity)
        enrolled = pb.Enrolled(certificate=certificate, authority=self._authority.pem)
        enrolled.proof = proof.reply(self._settings.key, enrolled, request.nonce)
        return enrolled
