"""The Replication service: contents, manifests, limits and refusals."""

import os
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.version import PROTOCOL
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.files.categories import MAX_PATH
from secmon.common.files.tree import content_hash
from secmon.common.logfile.warning_limiter import PER_WINDOW
from secmon.common.sqlite.faults import StoreFault
from secmon.master.cluster_server import REQUEST_BYTES
from secmon.master.publish_files import BULK, ERROR_LENGTH, FilePublisher
from secmon.master.replication_service import ReplicationService
from secmon.security.store.replication import Snapshot
from tests.common.files.folders import write
from tests.waiting import until
from tests.worker.replication_kit import NoRegistry, NoSnapshots, ThisRelease, running, serving

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


def asked(path: str, content: bytes) -> pb.FileEntry:
    digest = content_hash()
    digest.update(content)
    return pb.FileEntry(path=path, hash=digest.digest(), size=len(content))


def publisher_of(root: Path) -> FilePublisher:
    return FilePublisher(root, clock=SystemClock(), counters=Counters())


def service_of(
    root: Path, publisher: FilePublisher, authorize: Any = lambda context: ThisRelease()
) -> ReplicationService:
    return ReplicationService(root, files=publisher, security=NoSnapshots(), registry=NoRegistry(), authorize=authorize)


async def fetch(root: Path, *entries: pb.FileEntry) -> list[pb.FileChunk]:
    service = service_of(root, publisher_of(root))
    async with serving(service) as channel:
        chunks = [
            chunk async for chunk in pb_grpc.ReplicationStub(channel).FetchFiles(pb.FilesRequest(entries=entries))
        ]
    service.close()
    return chunks


async def test_contents_are_sent_in_pieces(tmp_path: Path) -> None:
    large = os.urandom(2 * PIECE_BYTES + 5)
    write(tmp_path, "etc/lists/large", large)
    write(tmp_path, "etc/lists/exact", large[:PIECE_BYTES])
    write(tmp_path, "etc/lists/empty", b"")
    chunks = await fetch(
        tmp_path,
        asked("etc/lists/large", large),
        asked("etc/lists/empty", b""),
        asked("etc/lists/exact", large[:PIECE_BYTES]),
    )
    assert [(chunk.index, len(chunk.data), chunk.last) for chunk in chunks] == [
        (0, PIECE_BYTES, False),
        (0, PIECE_BYTES, False),
        (0, 5, True),
        (1, 0, True),
        (2, PIECE_BYTES, True),
    ]
    assert b"".join(chunk.data for chunk in chunks if chunk.index == 0) == large


async def test_files_without_the_requested_content_are_gone(tmp_path: Path) -> None:
    write(tmp_path, "etc/lists/a", b"now")
    write(tmp_path, "etc/lists/c", b"fine")
    wanted = [asked("etc/lists/a", b"old"), asked("etc/lists/b", b"1"), asked("etc/lists/c", b"fine")]
    chunks = await fetch(tmp_path, *wanted, asked("etc/lists/a", b"longer"))
    assert [(chunk.index, chunk.gone) for chunk in chunks] == [(0, True), (1, True), (2, False), (3, True)]
    assert chunks[0].data == b""


async def test_nothing_outside_the_categories_is_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    secret = b"secret"
    write(tmp_path, "secret", secret)
    write(root, "etc/ossec.conf", secret)
    write(root, "etc/cluster/ca.key", secret)
    (root / "etc/rules").mkdir()
    (root / "etc/rules/link").symlink_to(tmp_path / "secret")
    (root / "etc/lists").symlink_to(tmp_path)
    paths = ["etc/ossec.conf", "etc/cluster/ca.key", "../secret", "etc/rules/../../../secret", "etc/rules/link"]
    chunks = await fetch(root, *(asked(path, secret) for path in [*paths, "etc/lists/secret", "/etc/passwd", ""]))
    assert all(chunk.gone and not chunk.data for chunk in chunks)
    assert len(chunks) == 8


async def test_callers_without_a_session_get_nothing(tmp_path: Path) -> None:
    def refuse(context: aio.ServicerContext[Any, Any]) -> None:
        raise SecmonError(3022, "no session")

    service = service_of(tmp_path, publisher_of(tmp_path), refuse)
    async with serving(service) as channel:
        stub = pb_grpc.ReplicationStub(channel)
        for call in (
            stub.FetchFiles(pb.FilesRequest()),
            stub.FetchManifest(pb.ManifestRequest()),
            stub.FetchSecurity(pb.SecurityRequest()),
        ):
            with pytest.raises(aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    service.close()


async def test_stores_that_fail_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def snapshot(self) -> Snapshot:
            raise StoreFault(2013, tmp_path / "security.db", OSError("malformed"))

        def changes(self, source: str, since: int) -> bytes:
            raise StoreFault(1021, tmp_path / "agents.db", OSError("full"))

    service = ReplicationService(
        tmp_path,
        files=publisher_of(tmp_path),
        security=Broken(),
        registry=Broken(),
        authorize=lambda context: ThisRelease(),
    )
    async with serving(service) as channel:
        stub = pb_grpc.ReplicationStub(channel)
        for _ in range(3):
            for call, file in (
                (stub.FetchSecurity(pb.SecurityRequest()), "security.db"),
                (stub.FetchRegistry(pb.RegistryRequest()), "agents.db"),
            ):
                with pytest.raises(aio.AioRpcError, match=file) as caught:
                    await call.read()
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    service.close()
    for reported in (
        "the security state cannot be sent to workers",
        "the registry of agents cannot be sent to workers",
    ):
        assert caplog.text.count(reported) == 1
    assert "Traceback" not in caplog.text


async def test_the_manifest_has_only_what_the_worker_lacks(tmp_path: Path) -> None:
    for number in range(4500):
        write(tmp_path, f"etc/lists/{number}", b"1")
    publisher = publisher_of(tmp_path)
    service = service_of(tmp_path, publisher)
    async with serving(service) as channel, running(publisher):
        stub = pb_grpc.ReplicationStub(channel)
        whole = [part async for part in stub.FetchManifest(pb.ManifestRequest(digest="other"))]
        assert max(part.ByteSize() for part in whole) < 2 * PIECE_BYTES
        assert sum(len(part.entries) for part in whole) == 4500
        assert {part.base for part in whole} == {0}
        first = publisher.position()
        same = [part async for part in stub.FetchManifest(pb.ManifestRequest(digest=first.digest))]
        assert [len(part.entries) for part in same] == [0]

        (tmp_path / "etc/lists/17").unlink()
        await until(lambda: publisher.revision == 2)
        behind = pb.ManifestRequest(digest=first.digest, epoch=first.epoch, since=first.revision)
        (delta,) = [part async for part in stub.FetchManifest(behind)]
        assert delta.base == first.revision
        assert [(entry.path, entry.hash) for entry in delta.entries] == [("etc/lists/17", b"")]
        behind.epoch = "another run"
        assert sum([len(part.entries) async for part in stub.FetchManifest(behind)]) == 4499
    service.close()


async def test_a_large_change_is_not_pushed_in_one_message(tmp_path: Path) -> None:
    class Session:
        name = "beta"
        protocol = PROTOCOL

        def __init__(self) -> None:
            self.pushed: list[pb.MasterMessage] = []

        def send(self, message: pb.MasterMessage) -> None:
            self.pushed.append(message)

    (tmp_path / "aside").mkdir()
    for number in range(BULK + 1):
        (tmp_path / f"aside/{number}").write_bytes(b"")
    publisher = publisher_of(tmp_path)
    async with running(publisher):
        await publisher.ready()
        session = Session()
        publisher.joined(session)
        (tmp_path / "aside").rename(tmp_path / "etc/shared/g")
        await until(lambda: publisher.revision > 1 and len(publisher.manifest()) == BULK + 1)
        assert all(push.files.base == 0 and not push.files.entries for push in session.pushed[:1])
        assert publisher.changes_since(publisher.epoch, 1) is None
        publisher.left(session)
        publisher.left(session)


def test_what_a_worker_can_make_the_master_log_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Session:
        name = "beta"
        protocol = PROTOCOL

        def send(self, message: pb.MasterMessage) -> None:
            raise AssertionError("nothing is sent")

    counters = Counters()
    publisher = FilePublisher(tmp_path, clock=SystemClock(), counters=counters)
    for _ in range(1000):
        publisher.received(Session(), pb.WorkerMessage(files_ack=pb.FilesAck(error="x" * 60_000)))
    assert counters.snapshot()["files.refused"] == 1000
    logged = [record.getMessage() for record in caplog.records]
    assert 0 < len(logged) <= PER_WINDOW
    assert max(len(line) for line in logged) < ERROR_LENGTH + 100


async def test_a_request_of_millions_of_files_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    service = service_of(tmp_path, publisher_of(tmp_path))
    async with serving(service, request_bytes=REQUEST_BYTES) as channel:
        send = channel.unary_stream(
            "/secmon.v1.Replication/FetchFiles", request_serializer=bytes, response_deserializer=bytes
        )
        with pytest.raises(aio.AioRpcError) as caught:
            [chunk async for chunk in send(b"\x0a\x00" * 10_000_000)]
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "a request of 20000000 bytes, 4194304 are allowed" in (caught.value.details() or "")
        longest = pb.FileEntry(path=f"etc/lists/{'x' * (MAX_PATH - 10)}", hash=bytes(32), size=2**63)
        # What workers of the version before this one ask for at once.
        most = pb.FilesRequest(entries=[longest] * 1000)
        assert len([chunk async for chunk in pb_grpc.ReplicationStub(channel).FetchFiles(most)]) == 1000
    service.close()
