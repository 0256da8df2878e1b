"""Replication of files from the master's folders to a worker's; all parts are real but the Join stream."""

import asyncio
import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.files.categories import category_of
from secmon.worker.apply_files import FileLimits
from tests.common.files.folders import edit, edits, new_root, write
from tests.waiting import until
from tests.worker.replication_kit import QUICK, Master, Wire, Worker, pair, running, serving, tree

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


@pytest.fixture
def master(tmp_path: Path) -> Master:
    (tmp_path / "alpha").mkdir()
    return Master(tmp_path / "alpha")


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    (tmp_path / "beta").mkdir()
    return Worker(tmp_path / "beta")


def replicated(root: Path) -> dict[str, bytes]:
    return {path: content for path, content in tree(root).items() if category_of(path)}


def shell(command: str) -> int:
    return os.system(command)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_new_changed_renamed_and_deleted_files_are_replicated(master: Master, worker: Worker) -> None:
    write(master.root, "etc/decoders/keys", b"001 a any key\n")
    write(master.root, "etc/shared/web/agent.conf", b"<agent_config/>")
    write(master.root, "etc/ossec.conf", b"mine")
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        assert tree(worker.root) == {
            "etc/decoders/keys": b"001 a any key\n",
            "etc/shared/web/agent.conf": b"<agent_config/>",
        }
        assert mode(worker.root / "etc/shared/web/agent.conf") == 0o660
        assert mode(worker.root / "etc/shared/web") == 0o770
        assert (wire.acks[-1].missing, wire.acks[-1].shared, wire.acks[-1].extra) == (2, 0, 0)

        write(master.root, "etc/rules/local.xml", b"<group/>")
        await until(lambda: (worker.root / "etc/rules/local.xml").exists())
        write(master.root, "etc/rules/local.xml", b"<group>2</group>")
        await until(lambda: replicated(worker.root).get("etc/rules/local.xml") == b"<group>2</group>")
        (master.root / "etc/shared/web").rename(master.root / "etc/shared/db")
        await until(lambda: (worker.root / "etc/shared/db/agent.conf").exists())
        await until(lambda: not (worker.root / "etc/shared/web").exists())
        (master.root / "etc/rules/local.xml").unlink()
        await until(lambda: not (worker.root / "etc/rules/local.xml").exists())
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == replicated(master.root)
        assert not any(ack.error for ack in wire.acks)
        assert "etc/rules/local.xml" in worker.applied


async def test_small_changes_are_sent_as_deltas(master: Master, worker: Worker) -> None:
    for number in range(300):
        write(master.root, f"etc/shared/g/{number}", b"x")
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        write(master.root, "etc/shared/g/7", b"y")
        await until(lambda: replicated(worker.root)["etc/shared/g/7"] == b"y")
        push = wire.pushes[-1].files
        assert push.base == push.position.revision - 1
        assert [entry.path for entry in push.entries] == ["etc/shared/g/7"]


async def test_excluded_files_are_not_replicated(master: Master, worker: Worker) -> None:
    for name in ("ar.conf", "x.tmp", "x~", "x.swp", "x.lock"):
        write(master.root, f"etc/shared/g/{name}", b"master")
        write(worker.root, f"etc/shared/g/{name}", b"worker")
    write(master.root, "etc/shared/g/f", b"1")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        contents = tree(worker.root)
        assert contents.pop("etc/shared/g/f") == b"1"
        assert set(contents.values()) == {b"worker"}
        # ... but do not keep the folder of a deleted group.
        shutil.rmtree(master.root / "etc/shared/g")
        await until(lambda: not (worker.root / "etc/shared/g").exists())


async def test_emptied_folders_of_rules_remain(master: Master, worker: Worker) -> None:
    write(master.root, "etc/rules/sub/r.xml", b"1")
    write(master.root, "var/multigroups/1a/merged.mg", b"1")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        shutil.rmtree(master.root / "etc/rules/sub")
        shutil.rmtree(master.root / "var/multigroups/1a")
        await until(lambda: not replicated(worker.root))
        await until(lambda: not (worker.root / "var/multigroups/1a").exists())
        assert (worker.root / "etc/rules/sub").is_dir()
        assert (worker.root / "var/multigroups").is_dir()


async def test_a_joining_worker_is_synchronized(master: Master, worker: Worker) -> None:
    write(master.root, "etc/shared/g/same", b"same")
    write(worker.root, "etc/shared/g/same", b"same")
    write(master.root, "etc/shared/g/stale", b"new content")
    write(worker.root, "etc/shared/g/stale", b"old")
    write(master.root, "etc/lists/corrupt", b"right")
    write(worker.root, "etc/lists/corrupt", b"wrong")
    write(worker.root, "etc/shared/gone/extra", b"extra")
    before = (worker.root / "etc/shared/g/same").stat().st_ino
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == replicated(master.root)
        assert not (worker.root / "etc/shared/gone").exists()
        assert (worker.root / "etc/shared/g/same").stat().st_ino == before
        assert (wire.acks[-1].missing, wire.acks[-1].shared, wire.acks[-1].extra) == (0, 2, 1)


async def test_edits_on_the_worker_are_undone(master: Master, worker: Worker) -> None:
    write(master.root, "etc/rules/r.xml", b"right")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        write(worker.root, "etc/lists/mine", b"by hand")
        await until(lambda: not (worker.root / "etc/lists/mine").exists())
        write(worker.root, "etc/rules/r.xml", b"wrong")
        await until(lambda: replicated(worker.root).get("etc/rules/r.xml") == b"right")
        shutil.rmtree(worker.root / "etc/rules")
        await until(lambda: replicated(worker.root).get("etc/rules/r.xml") == b"right")


async def test_folders_replace_files_and_files_folders(master: Master, worker: Worker) -> None:
    write(master.root, "etc/shared/a", b"file")
    write(worker.root, "etc/shared/a/deep/f", b"folder")
    write(worker.root, "etc/shared/a/deep/ar.conf", b"excluded")
    (worker.root / "etc/shared/a/link").symlink_to("/etc/passwd")
    write(master.root, "etc/shared/b/c/f", b"folder")
    write(worker.root, "etc/shared/b", b"file")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == {"etc/shared/a": b"file", "etc/shared/b/c/f": b"folder"}
        (master.root / "etc/shared/a").unlink()
        write(master.root, "etc/shared/a/now/folder", b"1")
        shutil.rmtree(master.root / "etc/shared/b/c")
        write(master.root, "etc/shared/b/c", b"now a file")
        await until(lambda: replicated(worker.root) == replicated(master.root) and worker.equals(master))


async def test_links_at_the_worker_are_never_followed(master: Master, worker: Worker, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"precious")
    write(master.root, "etc/shared/g/f", b"new")
    write(master.root, "etc/shared/h", b"new")
    (worker.root / "etc/shared").mkdir(parents=True)
    (worker.root / "etc/shared/g").symlink_to(outside)
    (worker.root / "etc/shared/h").symlink_to(outside / "f")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
    assert (outside / "f").read_bytes() == b"precious"
    assert not (worker.root / "etc/shared/g").is_symlink()
    assert replicated(worker.root) == {"etc/shared/g/f": b"new", "etc/shared/h": b"new"}


async def test_a_link_in_place_of_a_file_is_replaced_once(master: Master, worker: Worker, tmp_path: Path) -> None:
    write(master.root, "etc/decoders/keys", b"keys")
    write(worker.root, "etc/mine", b"mine")
    (worker.root / "etc/decoders").mkdir()
    (worker.root / "etc/decoders/keys").symlink_to("../mine")
    (worker.root / "etc/lists").mkdir()
    (worker.root / "etc/lists/link").symlink_to("/etc/passwd")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        assert not (worker.root / "etc/lists/link").is_symlink()
        assert sorted(worker.applied) == ["etc/decoders/keys", "etc/lists/link"]
        assert (worker.root / "etc/mine").read_bytes() == b"mine"


async def test_a_category_folder_that_is_a_link_is_refused(master: Master, worker: Worker, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(master.root, "etc/rules/r.xml", b"1")
    (worker.root / "etc").mkdir()
    (worker.root / "etc/rules").symlink_to(outside)
    async with pair(master, worker) as wire:
        await until(lambda: any("etc/rules is not a folder" in ack.error for ack in wire.acks))
        assert list(outside.iterdir()) == []
        (worker.root / "etc/rules").unlink()
        await until(lambda: worker.equals(master))


async def test_a_brief_absence_needs_a_delta_only(master: Master, worker: Worker) -> None:
    write(master.root, "etc/rules/a", b"1")
    async with serving(master.service) as channel, running(master.publisher, worker.applier):
        first = Wire("beta", channel, master.publisher, worker.applier)
        await first.join()
        await until(lambda: worker.equals(master))
        before = master.publisher.revision
        await first.leave()
        write(master.root, "etc/rules/b", b"2")
        await until(lambda: master.publisher.revision > before)
        assert set(master.publisher.changes_since(master.publisher.epoch, before) or ()) == {"etc/rules/b"}
        second = Wire("beta", channel, master.publisher, worker.applier)
        await second.join()
        await until(lambda: worker.equals(master))
        assert second.acks[-1].missing == 1
        await second.leave()
    master.service.close()


async def test_a_lost_push_is_found_by_the_next_heartbeat(master: Master, worker: Worker) -> None:
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        master.publisher.left(wire)
        write(master.root, "etc/rules/a", b"1")
        await until(lambda: master.publisher.revision == 2)
        assert not (worker.root / "etc/rules/a").exists()
        await wire.heartbeat()
        await until(lambda: worker.equals(master))
        asked = len(wire.replies)
        await wire.heartbeat()
        await wire.heartbeat()
        assert len(wire.replies) == asked


async def test_queued_pushes_are_applied_together(master: Master, worker: Worker) -> None:
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        wire.flowing.clear()
        for number in range(5):
            write(master.root, f"etc/rules/{number}", b"1")
            await until(lambda number=number: master.publisher.revision >= number + 2)  # type: ignore[misc]
        wire.flowing.set()
        await until(lambda: worker.equals(master))
        assert len(replicated(worker.root)) == 5


async def test_an_unwatched_change_is_found_by_the_full_scan(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "beta").mkdir()
    master = Master(tmp_path / "alpha", anti_entropy_seconds=0.1)
    worker = Worker(tmp_path / "beta", FileLimits(anti_entropy_seconds=0.1, retry_seconds=0.02))
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        await master.publisher._watch.stop()
        await worker.applier._watch.stop()
        write(master.root, "etc/rules/r.xml", b"1")
        await until(lambda: (worker.root / "etc/rules/r.xml").exists())
        write(worker.root, "etc/rules/r.xml", b"2")
        await until(lambda: replicated(worker.root) == {"etc/rules/r.xml": b"1"})


async def test_a_file_above_the_limit_does_not_delay_others(master: Master, tmp_path: Path) -> None:
    (tmp_path / "beta").mkdir()
    worker = Worker(tmp_path / "beta", FileLimits(max_file_bytes=10, retry_seconds=0.02))
    write(master.root, "etc/lists/huge", b"x" * 11)
    write(master.root, "etc/decoders/keys", b"key")
    write(worker.root, "etc/lists/extra", b"1")
    async with pair(master, worker) as wire:
        await until(lambda: any("etc/lists/huge" in ack.error for ack in wire.acks))
        assert replicated(worker.root) == {"etc/decoders/keys": b"key"}
        assert wire.acks[-1].position.epoch == ""
        write(master.root, "etc/lists/huge", b"small")
        await until(lambda: worker.equals(master))


async def test_too_many_files_are_refused_as_a_whole(master: Master, tmp_path: Path) -> None:
    (tmp_path / "beta").mkdir()
    worker = Worker(tmp_path / "beta", FileLimits(max_files=3, retry_seconds=0.02))
    for number in range(4):
        write(master.root, f"etc/lists/{number}", b"x")
    write(worker.root, "etc/lists/old", b"1")
    async with pair(master, worker) as wire:
        await until(lambda: any("limit is 3" in ack.error for ack in wire.acks))
        assert replicated(worker.root) == {"etc/lists/old": b"1"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or shell(f"mount -t tmpfs -o size=24m tmpfs {disk}") != 0:
        pytest.skip("a mount needs root")
    yield disk
    assert shell(f"umount -l {disk}") == 0


@pytest.mark.root
async def test_a_full_disk_leaves_no_partial_file_and_replication_resumes(master: Master, small_disk: Path) -> None:
    write(master.root, "etc/rules/a", b"old")
    worker = Worker(small_disk)
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        ballast = write(worker.root, "ballast", b"")
        with ballast.open("wb") as file:
            file.write(bytes(6 << 20))
        write(master.root, "etc/rules/big", random.Random(1).randbytes(4 << 20))
        await until(lambda: any("are free" in ack.error for ack in wire.acks))
        assert replicated(worker.root) == {"etc/rules/a": b"old"}
        ballast.unlink()
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == replicated(master.root)


@pytest.mark.root
async def test_a_disk_that_fills_up_during_a_batch(
    master: Master, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secmon.worker.staging.RESERVE_BYTES", -(1 << 30))  # the check sees space that is not there
    for number in range(30):
        write(master.root, f"etc/lists/{number}", random.Random(number).randbytes(1 << 20))
    worker = Worker(small_disk)
    async with pair(master, worker) as wire:
        await until(lambda: any("No space left" in ack.error for ack in wire.acks))
        assert replicated(worker.root) == {}
        for number in range(10, 30):
            (master.root / f"etc/lists/{number}").unlink()
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == replicated(master.root)


@pytest.mark.root
async def test_folders_on_another_file_system_than_staging(master: Master, worker: Worker, small_disk: Path) -> None:
    (worker.root / "etc").mkdir()
    (worker.root / "etc/shared").mkdir()
    assert shell(f"mount --bind {small_disk} {worker.root}/etc/shared") == 0
    try:
        write(master.root, "etc/shared/g/f", b"1")
        write(small_disk, "g/.secmon-new-0123.tmp", b"left over")
        async with pair(master, worker):
            await until(lambda: worker.equals(master))
            assert [path.name for path in (worker.root / "etc/shared/g").iterdir()] == ["f"]
            assert mode(worker.root / "etc/shared/g/f") == 0o660
    finally:
        assert shell(f"umount -l {worker.root}/etc/shared") == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root")
async def test_a_file_that_is_a_mount_point_is_overwritten(master: Master, worker: Worker, tmp_path: Path) -> None:
    mounted = write(tmp_path, "mounted.keys", b"old keys, and longer")
    keys = write(worker.root, "etc/decoders/keys", b"")
    assert shell(f"mount --bind {mounted} {keys}") == 0
    try:
        write(master.root, "etc/decoders/keys", b"new keys")
        async with pair(master, worker):
            await until(lambda: worker.equals(master))
            assert mounted.read_bytes() == b"new keys"
    finally:
        assert shell(f"umount -l {keys}") == 0


async def test_a_large_file(master: Master, worker: Worker) -> None:
    file = write(master.root, "etc/lists/large", b"begin")
    with file.open("r+b") as stream:
        stream.truncate(200 << 20)
        stream.seek(100 << 20)
        stream.write(random.Random(2).randbytes(1 << 20))
    write(master.root, "etc/decoders/keys", b"small")
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        assert (worker.root / "etc/lists/large").stat().st_size == 200 << 20
        assert not any(ack.error for ack in wire.acks)


async def test_many_small_files_are_one_batch(master: Master, worker: Worker) -> None:
    for number in range(5000):
        file = master.root / f"etc/shared/g{number % 100}/{number}"
        if number < 100:
            file.parent.mkdir(parents=True)
        file.write_bytes(str(number).encode())
    async with pair(master, worker) as wire:
        await until(lambda: worker.equals(master))
        assert wire.acks[-1].missing == 5000
        assert len(wire.acks) == 1
        shutil.rmtree(master.root / "etc/shared/g7")
        await until(lambda: not (worker.root / "etc/shared/g7").exists())
        await until(lambda: worker.equals(master))


async def test_files_that_keep_changing_arrive_in_the_end(master: Master, worker: Worker) -> None:
    async with pair(master, worker):
        for turn in range(40):
            write(master.root, "etc/lists/busy", random.Random(turn).randbytes(1 << 18))
            await asyncio.sleep(0.002)
        await until(lambda: replicated(worker.root) == replicated(master.root) and worker.equals(master))


async def test_a_restarted_worker_removes_what_a_crash_left(master: Master, worker: Worker) -> None:
    write(worker.root, "queue/cluster/files/17", b"half a file")
    write(master.root, "etc/rules/a", b"1")
    async with pair(master, worker):
        await until(lambda: worker.equals(master))
        assert not worker.staging.exists()


async def test_a_session_lost_during_a_fetch(master: Master, worker: Worker) -> None:
    for number in range(30):
        write(master.root, f"etc/lists/{number}", bytes(1 << 20))
    async with serving(master.service) as channel, running(master.publisher, worker.applier):
        await master.publisher.ready()
        async with serving(master.service) as doomed:
            first = Wire("beta", doomed, master.publisher, worker.applier)
            await first.join()
            await until(lambda: worker.staging.exists())
        await first.leave()
        second = Wire("beta", channel, master.publisher, worker.applier)
        await second.join()
        await until(lambda: worker.equals(master))
        assert replicated(worker.root) == replicated(master.root)
        await second.leave()
    master.service.close()


def test_any_edits_converge() -> None:
    @settings(max_examples=60)
    @given(st.lists(edits, max_size=12), st.lists(edits, max_size=4), st.lists(edits, max_size=8))
    def check(
        before: list[tuple[str, str, bytes]],
        at_the_worker: list[tuple[str, str, bytes]],
        live: list[tuple[str, str, bytes]],
    ) -> None:
        asyncio.run(converge(before, at_the_worker, live))

    check()


async def converge(
    before: list[tuple[str, str, bytes]],
    at_the_worker: list[tuple[str, str, bytes]],
    live: list[tuple[str, str, bytes]],
) -> None:
    """Edit the master before and after the worker joins, and the worker, too: both end up equal."""
    with new_root() as alpha, new_root() as beta:
        master, worker = Master(alpha), Worker(beta, QUICK)
        for step in before:
            edit(alpha, *step)
        for step in at_the_worker:
            edit(beta, *step)
        async with pair(master, worker):
            for step in live:
                edit(alpha, *step)
                await asyncio.sleep(0)
            await until(lambda: replicated(alpha) == replicated(beta) and worker.equals(master))
