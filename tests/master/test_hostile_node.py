"""Peers that send too much to the cluster port: with a session, with a certificate only, and with none."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import msgspec
import pytest
from grpc import aio

from secmon.cluster.rpc import proof
from secmon.cluster.rpc.certificates import MASTER_NAME, NodeCredentials, fingerprint
from secmon.cluster.rpc.credentials import channel_credentials, open_channel
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.request_budget import MAX_REQUEST_BYTES, STREAMS_PER_NODE
from secmon.master import report_service
from secmon.master.worker_session import MAX_MESSAGE_BYTES
from secmon.worker.cluster_member import ClusterMember
from secmon.worker.master_session import JoinCall
from tests.cluster_kit import KEY, ClusterKit, Recorder, Services, Slow
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio


def credentials_of(worker: ClusterMember) -> NodeCredentials:
    assert worker.keystore.current is not None
    return worker.keystore.current


@asynccontextmanager
async def connected(kit: ClusterKit, credentials: NodeCredentials) -> AsyncIterator[aio.Channel]:
    options = [("grpc.ssl_target_name_override", MASTER_NAME), ("grpc.max_send_message_length", -1)]
    target = f"127.0.0.1:{kit.master.port}"
    async with aio.secure_channel(target, channel_credentials(credentials), options=options) as channel:
        yield channel


@asynccontextmanager
async def attacked(
    folder: Path, services: Services = ()
) -> AsyncIterator[tuple[ClusterKit, NodeCredentials, Recorder]]:
    """A cluster with the worker ``alpha``, and the credentials of ``beta``, whose node has gone."""
    kit = ClusterKit(folder)
    try:
        await kit.start_master(services=services, max_messages_per_second=200)
        for name in ("alpha", "beta"):
            await kit.start_worker(name)
        await kit.joined("alpha", "beta")
        credentials = credentials_of(kit.workers[1])
        await kit.workers.pop().stop(grace=0)
        await until(lambda: kit.master.sessions.get("beta") is None)
        recorder = Recorder()
        kit.master.sessions.listeners.append(recorder)
        yield kit, credentials, recorder
        assert kit.master.sessions.get("alpha") is not None, "the others go on"
        assert "alpha" not in [name for name, _ in recorder.leaves]
    finally:
        await kit.stop()


def hello_of(kit: ClusterKit, credentials: NodeCredentials) -> pb.NodeHello:
    worker = kit.build_worker("beta")
    kit.workers.remove(worker)
    hello = worker.link._hello()
    hello.peer_port = kit.workers[0].port
    hello.proof = proof.join(KEY, hello, fingerprint(credentials.certificate))
    return hello


@asynccontextmanager
async def joining(channel: aio.Channel) -> AsyncIterator[JoinCall]:
    """A Join stream that is over at the end."""
    call = pb_grpc.MembershipStub(channel).Join(None)
    try:
        yield call
    finally:
        call.cancel()
        await call.code()


@asynccontextmanager
async def joined(kit: ClusterKit, channel: aio.Channel, credentials: NodeCredentials) -> AsyncIterator[JoinCall]:
    async with joining(channel) as call:
        await call.write(pb.WorkerMessage(hello=hello_of(kit, credentials)))
        answer = await call.read()
        assert isinstance(answer, pb.MasterMessage)
        assert answer.HasField("welcome"), answer
        yield call


async def flood(port: int, context: ssl.SSLContext) -> None:
    """HTTP/2 that never ends. Raises when the other side ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    while not reader.at_eof():
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(65_536))
        await writer.drain()
        await asyncio.sleep(0)  # drain() does not let the loop see that a TLS connection is lost
    raise ConnectionError


async def test_an_endless_stream_ends_its_own_session(tmp_path: Path) -> None:
    async with (
        attacked(tmp_path) as (kit, credentials, recorder),
        connected(kit, credentials) as channel,
        joined(kit, channel, credentials) as call,
    ):
        with suppress(aio.AioRpcError, asyncio.InvalidStateError):
            while not recorder.leaves:
                await call.write(pb.WorkerMessage(files_ack=pb.FilesAck(error="x")))
        await until(lambda: recorder.leaves)
        while isinstance(await call.read(), pb.MasterMessage):
            pass
        assert recorder.leaves == [("beta", "it sends more than 200 messages a second")]


async def test_a_large_message_ends_its_own_session(tmp_path: Path) -> None:
    async with (
        attacked(tmp_path) as (kit, credentials, recorder),
        connected(kit, credentials) as channel,
        joined(kit, channel, credentials) as call,
    ):
        await call.write(pb.WorkerMessage(files_ack=pb.FilesAck(error="x" * MAX_MESSAGE_BYTES)))
        await until(lambda: recorder.leaves)
        assert "it sent a message of 65" in recorder.leaves[0][1]
        assert recorder.messages == []


async def test_what_comes_after_the_end_of_a_session_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        attacked(tmp_path) as (kit, credentials, recorder),
        connected(kit, credentials) as channel,
        joined(kit, channel, credentials) as call,
    ):
        session = kit.master.sessions.get("beta")
        assert session is not None
        await call.write(pb.WorkerMessage(files_ack=pb.FilesAck(error="first")))
        await until(lambda: recorder.messages)
        session.close("it is silent")
        kit.master.sessions.remove(session)
        for _ in range(5):
            with suppress(aio.AioRpcError, asyncio.InvalidStateError):
                await call.write(pb.WorkerMessage(heartbeat=pb.WorkerHeartbeat()))
        with suppress(aio.AioRpcError):  # what a write that failed leaves as the status of the call
            while isinstance(await call.read(), pb.MasterMessage):
                pass
    assert "the session of beta failed" not in caplog.text


async def test_a_large_hello_message_is_not_answered(tmp_path: Path) -> None:
    async with (
        attacked(tmp_path) as (kit, credentials, _),
        connected(kit, credentials) as channel,
        joining(channel) as call,
    ):
        hello = hello_of(kit, credentials)
        hello.version = "1" * MAX_MESSAGE_BYTES
        await call.write(pb.WorkerMessage(hello=hello))
        assert not isinstance(await call.read(), pb.MasterMessage)
        assert kit.master.refusals.items() == []


async def test_a_message_above_the_limit_is_not_read(tmp_path: Path) -> None:
    async with attacked(tmp_path) as (kit, credentials, _), connected(kit, credentials) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await pb_grpc.MembershipStub(channel).Renew(pb.RenewRequest(csr=bytes(65 * 1024 * 1024)))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_requests_of_a_node_wait_for_its_own_only(tmp_path: Path) -> None:
    service = Slow()
    large = pb.RenewRequest(csr=bytes(MAX_REQUEST_BYTES - 1000)).SerializeToString()
    async with (
        attacked(tmp_path, [service.add_to]) as (kit, credentials, _),
        connected(kit, credentials) as first,
        connected(kit, credentials) as second,
    ):
        calls = [service.call(channel)(large) for channel in (first, second) for _ in range(3)]
        await until(lambda: len(service.sizes) == 2)
        assert kit.workers[0].link.channel is not None
        other = service.call(kit.workers[0].link.channel)(b"")
        await until(lambda: len(service.sizes) == 3)
        assert service.sizes[-1] == 0
        service.free.set()
        for call in (*calls, other):
            await call
        assert len(service.sizes) == 7


async def test_sessions_of_a_node_that_do_not_begin_are_replaced(tmp_path: Path) -> None:
    async with attacked(tmp_path) as (kit, credentials, _), connected(kit, credentials) as channel:
        silent = [pb_grpc.MembershipStub(channel).Join(None) for _ in range(20)]
        await until(lambda: sum(call.done() for call in silent) >= 20 - STREAMS_PER_NODE)
        async with joined(kit, channel, credentials):
            assert kit.master.sessions.get("beta") is not None
        for call in silent:
            call.cancel()


async def test_a_certificate_without_a_session_gives_no_access(tmp_path: Path) -> None:
    async with attacked(tmp_path) as (kit, credentials, _), connected(kit, credentials) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await pb_grpc.MembershipStub(channel).Renew(pb.RenewRequest())
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_without_a_certificate_nothing_is_read(tmp_path: Path) -> None:
    async with attacked(tmp_path) as (kit, credentials, _):
        trusting = grpc.ssl_channel_credentials(credentials.authority)
        channel = open_channel("127.0.0.1", kit.master.port, trusting, MASTER_NAME)
        with pytest.raises(aio.AioRpcError) as caught:
            await pb_grpc.MembershipStub(channel).Renew(pb.RenewRequest(csr=bytes(1024)), timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await channel.close(None)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.wait_for(flood(kit.master.port, context), LIMIT_SECONDS)


def test_a_report_of_millions_is_refused_before_it_is_unpacked() -> None:
    rows = 3_000_000
    bomb = b"\xdd" + rows.to_bytes(4, "big") + b"\x92\x01\x90" * rows
    with pytest.raises(msgspec.ValidationError, match="length <= 1000"):
        report_service._read_states(bomb)
