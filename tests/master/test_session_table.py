"""Sessions between master and worker: replacement, silence, renewal of certificates, end and rejoin."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from secmon.cluster.rpc import certificates, proof
from secmon.cluster.rpc.certificates import MASTER_NAME, NodeCredentials, fingerprint, node_target
from secmon.cluster.rpc.credentials import channel_credentials, open_channel, peer_identity
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.master.authority import Authority
from secmon.master.session_table import SessionTable
from secmon.master.worker_session import QUEUE_LIMIT
from secmon.worker.cluster_member import ClusterMember
from tests.cluster_kit import KEY, ClusterKit, Recorder, ShiftedClock, cluster
from tests.slowlink import SlowLink
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _second_join(kit: ClusterKit, worker: ClusterMember, **hello: object) -> AsyncIterator[pb.MasterMessage]:
    """Join once more with the worker's credentials, and stay mute; the master's answer."""
    credentials = worker.keystore.current
    assert credentials is not None
    channel = open_channel("127.0.0.1", kit.master.port, channel_credentials(credentials), MASTER_NAME)
    try:
        greeting = worker.link._hello()
        for name, value in hello.items():
            setattr(greeting, name, value)
        greeting.proof = proof.join(KEY, greeting, fingerprint(credentials.certificate))
        call = pb_grpc.MembershipStub(channel).Join(None)
        await call.write(pb.WorkerMessage(hello=greeting))
        answer = await call.read()
        assert isinstance(answer, pb.MasterMessage)
        yield answer
    finally:
        await channel.close(None)


async def test_the_same_installation_replaces_its_old_session_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        recorder = Recorder()
        kit.master.sessions.listeners.append(recorder)
        async with _second_join(kit, kit.workers[0]) as answer:
            assert answer.welcome.master.node_name == "master"
            assert recorder.leaves[0] == ("alpha", "alpha joins again")
            await until(lambda: "alpha joins again" in kit.workers[0].link.reason)
            await until(lambda: len(recorder.leaves) == 2)  # and the worker takes it back
            assert recorder.leaves[1] == ("alpha", "alpha joins again")
        await kit.joined("alpha")
        assert len(kit.master.sessions.all()) == 1


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"node_name": "beta"}, 3042),
        ({"installation_id": "00000000-0000-0000-0000-000000000000"}, 3042),
        ({"peer_port": 0}, 3004),
        ({"peer_port": 70_000}, 3004),
        ({"protocol": 9, "min_protocol": 9}, 3031),
        ({"cluster_name": "elsewhere"}, 3030),
        ({"clock": 0.0}, 3041),
    ],
)
async def test_joins_that_are_refused(tmp_path: Path, hello: dict[str, object], code: int) -> None:
    async with cluster(tmp_path, "alpha") as kit, _second_join(kit, kit.workers[0], **hello) as answer:
        assert answer.refusal.code == code
        assert answer.refusal.reason
        assert kit.workers[0].link.connected.is_set()


async def test_both_sides_notice_a_network_that_drops_everything(tmp_path: Path) -> None:
    kit = ClusterKit(tmp_path)
    recorder = Recorder()
    relay = None
    try:
        await kit.start_master(heartbeat_misses=8)
        kit.master.sessions.listeners.append(recorder)
        relay = SlowLink(kit.master.port)
        await relay.start()
        worker = await kit.start_worker("alpha", port=relay.port, heartbeat_misses=8)
        await kit.joined("alpha")
        relay.freeze()
        await until(lambda: recorder.leaves and "the master has been silent" in worker.link.reason)
        assert recorder.leaves[0][1].startswith("alpha has been silent for")
        assert kit.master.sessions.absent() == ["alpha"]
        assert worker.link.channel is None
        with pytest.raises(SecmonError) as caught:
            worker.link.send(pb.WorkerMessage())
        assert caught.value.code == 3023
        relay.thaw()
        await kit.joined("alpha")
    finally:
        await kit.stop()
        if relay:
            await relay.stop()


async def test_data_and_calls_are_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionTable, "received", lambda table, session, message: None)  # heartbeats are late
    async with cluster(tmp_path) as kit:
        recorder = Recorder()
        kit.master.sessions.listeners.append(recorder)
        kit.master.sessions.rules = replace(kit.master.sessions.rules, silence=0.4)
        worker = await kit.start_worker("alpha", heartbeat_misses=8)
        await kit.joined("alpha")
        session = kit.master.sessions.get("alpha")
        assert session is not None
        session.round_trip = 0.0
        ending = asyncio.get_running_loop().time() + 1.5
        while asyncio.get_running_loop().time() < ending:
            assert worker.link.channel is not None, worker.link.reason
            with pytest.raises(aio.AioRpcError, match="PERMISSION_DENIED"):
                await pb_grpc.MembershipStub(worker.link.channel).Renew(pb.RenewRequest())
            worker.link.heard()
            await asyncio.sleep(0.02)
        assert recorder.leaves == []
        await until(lambda: recorder.leaves)


async def test_workers_join_again_after_a_restart_of_the_master(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        before = [worker.keystore.current for worker in kit.workers]
        ports: dict[str, Any] = {"listen_port": kit.master.port, "enrol_port": kit.master.enrol_port}
        await kit.masters.pop().stop("upgrade", grace=0)
        await until(lambda: not any(worker.link.connected.is_set() for worker in kit.workers))
        assert not await kit.workers[0].link.wait_connected(0.01)
        master = await kit.start_master(**ports)
        assert set(master.sessions.absent()) <= {"alpha", "beta"}
        await kit.joined("alpha", "beta")
        assert await kit.workers[0].link.wait_connected(1)
        assert master.sessions.absent() == []
        assert [worker.keystore.current for worker in kit.workers] == before


async def test_the_reason_of_a_leave_reaches_the_other_side(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        recorder = Recorder()
        kit.master.sessions.listeners.append(recorder)
        await kit.workers.pop().stop("maintenance", grace=0)
        await until(lambda: recorder.leaves)
        assert recorder.leaves == [("beta", "it left: 'maintenance'")]
        await until(lambda: [m.name for m in kit.workers[0].link.members()] == ["master", "alpha"])
        lost = kit.master.health.health()[0]["lost"]
        assert [node["name"] for node in lost] == ["beta"]
        await kit.masters.pop().stop("upgrade", grace=0)
        await until(lambda: kit.workers[0].link.reason != "not connected yet")
        assert not kit.workers[0].link.connected.is_set()


async def test_a_worker_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        session = kit.master.sessions.get("alpha")
        assert session is not None
        for _ in range(QUEUE_LIMIT + 1):
            session.send(pb.MasterMessage(members=pb.Members()))
        assert session.reason is not None
        assert "does not take them" in session.reason
        await until(lambda: "does not take them" in kit.workers[0].link.reason)
        await kit.joined("alpha")


async def test_certificates_are_renewed_within_the_session(tmp_path: Path) -> None:
    clock = ShiftedClock(timedelta(days=-61))
    async with cluster(tmp_path, "alpha", clock=clock) as kit:
        worker, session = kit.workers[0], kit.master.sessions.get("alpha")
        old, old_master = worker.keystore.current, kit.master.keystore.current
        assert old is not None
        assert old_master is not None
        clock.offset = timedelta()  # 61 of 90 days have passed
        await until(lambda: worker.keystore.current != old and kit.master.keystore.current != old_master)
        assert kit.master.sessions.get("alpha") is session
        assert worker.link.connected.is_set()
        assert worker.keystore.current is not None
        assert worker.keystore.defect() is None
        assert not worker.keystore.renewal_due()
        shown = await _shown_certificate(worker.port)
        assert fingerprint(shown) == fingerprint(worker.keystore.current.certificate)
        channel = kit.master.channels.channel("alpha")
        assert channel is not None
        await asyncio.wait_for(_ready(channel), LIMIT_SECONDS)


async def _shown_certificate(port: int) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return ssl.DER_cert_to_PEM_cert(shown).encode()


async def _ready(channel: aio.Channel) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)


async def test_an_expired_certificate_is_replaced_by_enrolling(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        worker = kit.workers.pop()
        await worker.stop(grace=0)
        clock = ShiftedClock()
        authority = Authority(kit.paths("master"), "test", clock, timedelta(days=90))
        clock.offset = timedelta(days=-100)
        key = certificates.new_key()
        expired = authority.sign(key.public_key(), worker.keystore.identity)
        worker.keystore.install(NodeCredentials(certificates.key_pem(key), expired, authority.pem))
        caplog.set_level("INFO")
        again = await kit.start_worker("alpha")
        await kit.joined("alpha")
        assert again.keystore.current is not None
        assert again.keystore.current.certificate != expired
        says = [record.getMessage() for record in caplog.records if "certificate expired on" in record.getMessage()]
        assert len(says) == 2, "the worker's log and the master's"


async def test_workers_enrol_again_for_a_new_authority(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        caplog.set_level("INFO")
        ports: dict[str, Any] = {"listen_port": kit.master.port, "enrol_port": kit.master.enrol_port}
        await kit.masters.pop().stop(grace=0)
        for name in ("ca.key", "ca.pem"):
            (kit.paths("master").cluster_tls / name).unlink()
        await kit.start_master(**ports)
        await kit.joined("alpha")
        assert "session refused" in caplog.text


async def test_a_node_cannot_use_the_name_of_another(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        alpha = kit.workers[0]
        credentials = kit.workers[1].keystore.current
        assert credentials is not None
        for target, passes in ((node_target("alpha"), True), (node_target("beta"), False), (MASTER_NAME, False)):
            channel = open_channel("127.0.0.1", alpha.port, channel_credentials(credentials), target)
            try:
                with pytest.raises(aio.AioRpcError) as caught:
                    async for _ in pb_grpc.PeerStub(channel).Execute(pb.ExecuteRequest()):
                        pass
                expected = grpc.StatusCode.UNIMPLEMENTED if passes else grpc.StatusCode.UNAVAILABLE
                assert caught.value.code() is expected, target
            finally:
                await channel.close(None)


class _WhoCalls(pb_grpc.PeerServicer):
    def __init__(self) -> None:
        self.callers: list[certificates.PeerIdentity] = []

    async def Call(
        self, request: pb.ExecuteRequest, context: aio.ServicerContext[pb.ExecuteRequest, pb.ExecuteReply]
    ) -> pb.ExecuteReply:
        self.callers.append(peer_identity(context))
        return pb.ExecuteReply(chunks=[b"x"])

    async def Execute(
        self, request: pb.ExecuteRequest, context: aio.ServicerContext[pb.ExecuteRequest, pb.ExecuteChunk]
    ) -> AsyncIterator[pb.ExecuteChunk]:
        self.callers.append(peer_identity(context))
        yield pb.ExecuteChunk(items=b"x")


async def test_workers_verify_the_certificate_of_the_master(tmp_path: Path) -> None:
    kit = ClusterKit(tmp_path)
    service = _WhoCalls()
    try:
        await kit.start_master()
        await kit.start_worker("alpha", services=[lambda s: pb_grpc.add_PeerServicer_to_server(service, s)])
        await kit.joined("alpha")
        channel = kit.master.channels.channel("alpha")
        assert channel is not None
        chunks = [chunk async for chunk in pb_grpc.PeerStub(channel).Execute(pb.ExecuteRequest())]
        assert chunks[0].items == b"x"
        assert (service.callers[0].name, service.callers[0].is_master) == ("master", True)
        assert kit.master.channels.channel("beta") is None
    finally:
        await kit.stop()


async def test_a_taken_port_stops_the_start(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        taken = kit.master.port
        worker = kit.build_worker("alpha", listen_port=taken)
        other = kit.build_master("other", listen_port=taken)
        name_conflict = rf"2010: .*, port {taken}: Address already in use; change"
        with pytest.raises(
            SecmonError, match=rf"{name_conflict} clusterd\.peer_port in {tmp_path}/other/etc/local_internal_opt"
        ):
            await other.start()
        with pytest.raises(
            SecmonError, match=rf"{name_conflict} clusterd\.peer_port in {tmp_path}/alpha/etc/local_internal_opt"
        ):
            await worker.start()
        third = kit.build_master("third", port=taken, listen_port=taken)
        with pytest.raises(SecmonError, match=rf"{name_conflict} cluster\.port in {tmp_path}/third/etc/ossec\.conf"):
            await third.start()
        fourth = kit.build_master("fourth", enrol_port=taken)
        with pytest.raises(
            SecmonError, match=rf"{name_conflict} clusterd\.enrol_port \(by default cluster\.port \+ 1\)"
        ):
            await fourth.start()


async def test_health_follows_the_reports(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        started = SystemClock().now().timestamp()
        ack = pb.FilesAck(missing=1, shared=2, extra=3, started=started, ended=started + 1)
        kit.workers[0].link.send(pb.WorkerMessage(files_ack=ack))

        def status() -> dict[str, Any]:
            return dict(kit.master.health.health()[1]["status"])

        await until(lambda: status()["last_sync_integrity"]["date_start_master"] != "n/a")
        assert status()["last_sync_integrity"]["total_files"] == {"missing": 1, "shared": 2, "extra": 3}
        assert status()["last_check_integrity"]["date_end_master"] != "n/a"
        assert status()["sync_integrity_free"] is True
        assert status()["last_sync_agentgroup"] == {"date_start": "n/a", "date_end": "n/a", "n_synced_chunks": 0}


async def test_clock_skew_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        session = kit.master.sessions.get("alpha")
        assert session is not None
        ahead = SystemClock().now().timestamp() + 300
        for _ in range(3):
            kit.master.sessions.received(session, pb.WorkerMessage(heartbeat=pb.WorkerHeartbeat(clock=ahead)))
        assert caplog.text.count("the clock of worker alpha differs") == 1
        assert session.reason is None, "the next tick closes it"


async def test_many_workers_join_at_once(tmp_path: Path) -> None:
    names = [f"worker-{number}" for number in range(12)]
    kit = ClusterKit(tmp_path)
    try:
        await kit.start_master()
        for name in names:
            await kit.start_worker(name)
        await kit.joined(*names)
        await until(lambda: all(len(worker.link.members()) == 13 for worker in kit.workers))
        items = kit.master.health.health()
        assert sorted(item["info"]["name"] for item in items[1:]) == sorted(names)
        assert len({worker.keystore.identity.installation_id for worker in kit.workers}) == 12
    finally:
        await kit.stop()
