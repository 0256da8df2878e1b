"""The enrolment port: valid requests, refused ones and attacks."""

import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from grpc import aio

from secmon.cluster.rpc import certificates, proof, version
from secmon.cluster.rpc.certificates import MASTER_NAME, fingerprint
from secmon.cluster.rpc.credentials import open_channel, server_credentials
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.master.cluster_server import ClusterServer
from secmon.master.failure_backoff import FREE_FAILURES
from tests.cluster_kit import KEY, cluster
from tests.waiting import until

pytestmark = pytest.mark.anyio


def _certificate(master: ClusterServer) -> bytes:
    assert master.keystore.current is not None
    return master.keystore.current.certificate


@asynccontextmanager
async def _stranger(master: ClusterServer) -> AsyncIterator["pb_grpc.EnrolmentAsyncStub"]:
    trust = grpc.ssl_channel_credentials(_certificate(master))
    channel = open_channel("127.0.0.1", master.enrol_port, trust, MASTER_NAME)
    try:
        yield pb_grpc.EnrolmentStub(channel)
    finally:
        await channel.close(None)


def _request(master: ClusterServer, **hello: object) -> pb.EnrolRequest:
    """A request in order, its hello changed, with a right proof."""
    fields = {
        "node_name": "alpha",
        "cluster_name": "test",
        "version": "4.8.2",
        "protocol": version.PROTOCOL,
        "min_protocol": version.MIN_PROTOCOL,
        "installation_id": str(uuid.uuid4()),
        "peer_port": 1516,
        "clock": SystemClock().now().timestamp(),
    } | hello
    request = pb.EnrolRequest(
        hello=pb.NodeHello(**fields),  # type: ignore[arg-type]
        csr=certificates.new_request(certificates.new_key(), "alpha"),
        nonce=secrets.token_bytes(32),
    )
    return _proved(master, request)


def _proved(master: ClusterServer, request: pb.EnrolRequest) -> pb.EnrolRequest:
    request.proof = proof.enrolment(KEY, request, fingerprint(_certificate(master)))
    return request


async def test_the_certificate_is_for_the_node_and_key_of_the_request(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        request = _request(kit.master)
        answer = await stub.Enrol(request)
        enrolled = answer.enrolled
        assert proof.verify(proof.reply(KEY, enrolled, request.nonce), enrolled.proof)
        identity = certificates.identity_of(enrolled.certificate)
        assert (identity.name, identity.is_master) == ("alpha", False)
        assert identity.installation_id == request.hello.installation_id


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"protocol": 9, "min_protocol": 9}, 3031),
        ({"protocol": 0, "min_protocol": 0}, 3031),
        ({"node_name": "a" * 65}, 3004),
        ({"node_name": "../x"}, 3004),
        ({"node_name": ""}, 3004),
        ({"installation_id": "me"}, 3004),
        ({"version": "4.8\n2"}, 3004),
        ({"clock": float("nan")}, 3041),
        ({"clock": float("inf")}, 3041),
        ({"cluster_name": "Test"}, 3030),
        ({"node_name": "Master"}, 3029),
    ],
)
async def test_hello_messages_that_are_refused(tmp_path: Path, hello: dict[str, object], code: int) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        answer = await stub.Enrol(_request(kit.master, **hello))
        assert answer.refusal.code == code
        assert answer.refusal.reason


async def test_certificate_requests_that_are_refused(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    other = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        for csr in (b"", b"nonsense", b"\x00" * 20_000, other.public_bytes(Encoding.PEM)):
            request = _request(kit.master)
            request.csr = csr
            answer = await stub.Enrol(_proved(kit.master, request))
            assert answer.refusal.code == 3042


async def test_any_change_breaks_the_proof(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        request = _request(kit.master)
        request.hello.node_name = "beta"
        assert (await stub.Enrol(request)).refusal.code == 3025
        request = _request(kit.master)
        request.csr = certificates.new_request(certificates.new_key(), "alpha")
        assert (await stub.Enrol(request)).refusal.code == 3025
        assert (await stub.Enrol(pb.EnrolRequest())).refusal.code == 3031


async def test_a_message_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Enrol(pb.EnrolRequest(csr=bytes(1024 * 1024)))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_failures_are_throttled_and_a_valid_proof_is_accepted_meanwhile(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        wrong = _request(kit.master)
        wrong.proof = bytes(32)
        for _ in range(FREE_FAILURES + 1):
            assert (await stub.Enrol(wrong)).refusal.code == 3025
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Enrol(wrong)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await stub.Enrol(_request(kit.master))).HasField("enrolled")
        assert len(kit.master.refusals.items()) == 1


class _Middle(pb_grpc.EnrolmentServicer):
    """Ends the worker's TLS with a certificate of its own, and passes the request on, or answers by itself."""

    def __init__(self, target: "pb_grpc.EnrolmentAsyncStub | None") -> None:
        self.target = target
        self.seen: list[pb.EnrolRequest] = []

    async def Enrol(
        self, request: pb.EnrolRequest, context: aio.ServicerContext[pb.EnrolRequest, pb.EnrolReply]
    ) -> pb.EnrolReply:
        self.seen.append(request)
        if self.target:
            return await self.target.Enrol(request)
        return pb.EnrolReply(enrolled=pb.Enrolled(certificate=b"mine", authority=b"mine", proof=bytes(32)))


@asynccontextmanager
async def _middle(folder: Path, servicer: _Middle) -> AsyncIterator[int]:
    keystore = Keystore(Paths(folder), "master", SystemClock(), is_master=True)
    server = aio.server()
    pb_grpc.add_EnrolmentServicer_to_server(servicer, server)
    port = server.add_secure_port("127.0.0.1:0", server_credentials(keystore, SystemClock(), clients=False))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def test_a_man_in_the_middle_cannot_pass_a_proof_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _stranger(kit.master) as stub:
        middle = _Middle(stub)
        async with _middle(tmp_path / "middle", middle) as port:
            worker = await kit.start_worker("alpha", enrol_port=port)
            await until(lambda: worker.link.refusal)
            assert worker.link.refusal is not None
            assert worker.link.refusal.code == 3025
            assert worker.keystore.current is None
            assert middle.seen[0].proof
            assert KEY not in middle.seen[0].SerializeToString()


async def test_a_master_without_the_key_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, _middle(tmp_path / "middle", _Middle(None)) as port:
        worker = await kit.start_worker("alpha", enrol_port=port)
        await until(lambda: worker.link.refusal)
        assert "does not prove" in worker.link.reason
        assert worker.keystore.current is None
