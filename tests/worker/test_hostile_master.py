"""A master that sends invalid sets and contents: nothing outside the replicated folders changes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from secmon.cluster.files.manifest_codec import to_wire
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.clock import SystemClock
from secmon.common.files.manifest import Entry, Manifest
from secmon.common.files.tree import content_hash
from secmon.worker.apply_files import FileApplier
from tests.common.files.folders import write
from tests.waiting import until
from tests.worker.replication_kit import QUICK, Wire, running, serving, tree

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


def entry(content: bytes) -> Entry:
    digest = content_hash()
    digest.update(content)
    return Entry(digest.digest(), len(content))


class Hostile(pb_grpc.ReplicationServicer):
    """Serves any manifest and any pieces; a publisher as well, as far as the worker's end is concerned."""

    def __init__(self, entries: dict[str, Entry], chunks: list[pb.FileChunk]) -> None:
        self.entries = list(to_wire(entries))
        self.chunks = chunks
        self.position_sent = pb.Position(epoch="evil", revision=1, digest=Manifest(entries).digest)
        self.acks: list[pb.FilesAck] = []

    def joined(self, session: Any) -> None: ...
    def left(self, session: Any) -> None: ...
    def received(self, session: Any, message: pb.WorkerMessage) -> None:
        self.acks.append(message.files_ack)

    async def FetchSecurity(self, request: pb.SecurityRequest, context: Any) -> AsyncIterator[pb.Blob]:
        yield pb.Blob()

    async def FetchRegistry(self, request: pb.RegistryRequest, context: Any) -> AsyncIterator[pb.Blob]:
        yield pb.Blob()

    async def FetchManifest(self, request: pb.ManifestRequest, context: Any) -> AsyncIterator[pb.FileEntries]:
        yield pb.FileEntries(position=self.position_sent, entries=self.entries)

    async def FetchFiles(self, request: pb.FilesRequest, context: Any) -> AsyncIterator[pb.FileChunk]:
        for chunk in self.chunks:
            yield chunk


async def refusal(root: Path, hostile: Hostile) -> str:
    """What a worker with one file answers; its files stay as they are."""
    write(root, "etc/rules/mine", b"mine")
    write(root, "etc/ossec.conf", b"config")
    before = tree(root)
    applier = FileApplier(root, root / "queue/cluster/files", clock=SystemClock(), limits=QUICK)
    async with serving(hostile) as channel, running(applier):
        wire = Wire("beta", channel, hostile, applier)
        await wire.join()
        await until(lambda: hostile.acks)
        await wire.leave()
    assert tree(root) == before
    assert not (root / "queue/cluster/files").exists()
    assert hostile.acks[0].error
    return hostile.acks[0].error


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "../../etc/passwd",
        "/etc/passwd",
        "etc/rules/../ossec.conf",
        "etc/rules/../../api/configuration/api.yaml",
        "etc/rules/a\0b",
        "etc/ossec.conf",
        "etc/rules/ar.conf",
        "api/configuration/api.yaml",
        "queue/cluster/files/0",
        "etc/rules//x",
        "",
    ],
)
async def test_a_set_with_a_forbidden_path_is_refused(tmp_path: Path, path: str) -> None:
    good = {"etc/rules/good": entry(b"1")}
    hostile = Hostile(good, [pb.FileChunk(index=0, data=b"1", last=True)])
    hostile.entries += list(to_wire({path: entry(b"1")}))
    assert "not replicated" in await refusal(tmp_path, hostile)
    assert not (tmp_path / "etc/rules/good").exists()


async def test_a_path_that_is_file_and_folder(tmp_path: Path) -> None:
    entries = {"etc/rules/a": entry(b"1"), "etc/rules/a/b/c": entry(b"1")}
    assert "both a file and a folder" in await refusal(tmp_path, Hostile(entries, []))


async def test_a_manifest_with_another_digest(tmp_path: Path) -> None:
    hostile = Hostile({"etc/rules/a": entry(b"1")}, [])
    hostile.position_sent.digest = "0" * 63 + "1"
    assert "digest" in await refusal(tmp_path, hostile)


async def test_a_hash_of_another_size(tmp_path: Path) -> None:
    assert "hash" in await refusal(tmp_path, Hostile({"etc/rules/a": Entry(b"short", 1)}, []))


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([pb.FileChunk(index=0, data=b"3", last=True)], "announced content"),
        ([pb.FileChunk(index=0, data=b"12", last=True)], "longer"),
        ([pb.FileChunk(index=0, data=b"", last=True)], "announced content"),
        ([pb.FileChunk(index=7, data=b"1", last=True)], "not in order"),
        ([pb.FileChunk(index=0, data=b"1", last=True)] * 2, "not in order"),
        ([pb.FileChunk(index=0, data=b""), pb.FileChunk(index=1, data=b"1", last=True)], "not in order"),
    ],
)
async def test_contents_that_were_not_requested(tmp_path: Path, chunks: list[pb.FileChunk], reason: str) -> None:
    entries = {"etc/rules/a": entry(b"1"), "etc/rules/b": entry(b"1")}
    assert reason in await refusal(tmp_path, Hostile(entries, chunks))


async def test_a_push_with_a_forbidden_path(tmp_path: Path) -> None:
    hostile = Hostile({}, [])
    applier = FileApplier(tmp_path, tmp_path / "queue/cluster/files", clock=SystemClock(), limits=QUICK)
    async with serving(hostile) as channel, running(applier):
        wire = Wire("beta", channel, hostile, applier)
        await wire.join()
        await until(lambda: hostile.acks)
        position = pb.Position(epoch="evil", revision=2, digest="1")
        entries = list(to_wire({"../../evil": entry(b"1")}))
        wire.send(pb.MasterMessage(files=pb.FilesPush(position=position, base=1, entries=entries)))
        await until(lambda: any("not replicated" in ack.error for ack in hostile.acks))
        await wire.leave()
    assert tree(tmp_path) == {}
