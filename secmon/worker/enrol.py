"""A worker's request for a certificate of the cluster."""

import logging
import secrets

import grpc
from grpc import aio

from secmon.cluster.rpc import certificates, proof
from secmon.cluster.rpc.certificates import MASTER_NAME, NodeCredentials
from secmon.cluster.rpc.credentials import open_channel
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.shown_certificate import shown_certificate
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.clusterd.enrolment")


async def enrol(settings: LinkSettings, keystore: Keystore, clock: Clock, hello: pb.NodeHello, reason: str) -> None:
    """Request a certificate and store it in ``keystore``; ``reason`` is for the master's log.

    Raises SecmonError: the master's refusal (3025, 3028, 3029, 3030, 3031, 3041, 3004), 3041 when this node's clock
    lies outside the life of the master's certificate, 3025 when the master does not prove the key, 3023 when the
    master cannot be reached. Nothing is stored then.
    """
    log.info("requesting a certificate from the master %s: %s", settings.master, reason)
    key = certificates.new_key()
    request = pb.EnrolRequest(
        hello=hello,
        csr=certificates.new_request(key, settings.node_name),
        nonce=secrets.token_bytes(32),
        reason=reason,
    )
    server = await _server_certificate(settings)
    outside = certificates.validity_defect(server, clock.now())
    if outside:
        raise SecmonError(3041, f"by the clock of this node, the master has a {outside}")
    request.proof = proof.enrolment(settings.key, request, certificates.fingerprint(server))
    answer = await _send(settings, server, request)
    if answer.HasField("refusal"):
        raise SecmonError(answer.refusal.code, answer.refusal.reason)
    enrolled = answer.enrolled
    if not proof.verify(proof.reply(settings.key, enrolled, request.nonce), enrolled.proof):
        raise SecmonError(3025, "the master does not prove that it has the cluster key of this node")
    credentials = NodeCredentials(certificates.key_pem(key), enrolled.certificate, enrolled.authority)
    defect = certificates.defect(credentials, keystore.identity, clock.now())
    if defect:
        raise SecmonError(3042, f"from the master: {defect}")
    keystore.install(credentials)
    log.info("the master %s has signed a certificate for this node", settings.master)


async def _server_certificate(settings: LinkSettings) -> bytes:
    """The certificate (PEM) of the enrolment port. It is not verified here; the proofs are bound to it."""
    try:
        return await shown_certificate(settings.master, settings.enrol_port, seconds=settings.join_timeout_seconds)
    except (OSError, TimeoutError) as error:
        raise SecmonError(3023, _unreachable(settings, str(error) or "no answer")) from None


async def _send(settings: LinkSettings, server: bytes, request: pb.EnrolRequest) -> pb.EnrolReply:
    trust_this_one = grpc.ssl_channel_credentials(server)
    channel = open_channel(settings.master, settings.enrol_port, trust_this_one, MASTER_NAME)
    try:
        return await pb_grpc.EnrolmentStub(channel).Enrol(request, timeout=settings.join_timeout_seconds)
    except aio.AioRpcError as error:
        raise SecmonError(3023, _unreachable(settings, error.details() or error.code().name)) from None
    finally:
        await channel.close(None)


def _unreachable(settings: LinkSettings, detail: str) -> str:
    return f"enrolment at {settings.master}:{settings.enrol_port}: {detail}"
