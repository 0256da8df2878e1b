"""Replication of the security state, with real SQLite and gRPC; the Join stream is replaced by direct calls."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.master.generation_2 import known_snapshot
from secmon.master.publish_files import FilePublisher
from secmon.master.publish_security import SecurityPublisher
from secmon.master.replication_service import ReplicationService
from secmon.security.store.replication import Row
from secmon.security.store.schema import SCHEMA, SINCE_GENERATION_3, roles, silences
from secmon.security.store.security_store import SecurityStore
from secmon.worker.apply_security import SecurityApplier
from tests.alerts.silenced import silence
from tests.common.files.folders import new_root
from tests.security.store.rows import put_user
from tests.waiting import LIMIT_SECONDS, until
from tests.worker.replication_kit import NoRegistry, ThisRelease, Wire, running, serving

pytestmark = pytest.mark.anyio


def put(store: SecurityStore, number: int, name: str | None = None) -> int:
    """Write a role, and a user, without which workers refuse the state; the new revision."""
    with store.write() as transaction:
        put_user(transaction, 1)
        transaction.put(roles, role(number, name or f"role {number}"))
        return transaction.revision


def role(number: int, name: str) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(roles.c.keys(), 0)
    row |= {"id": number, "name": name}
    return row


class Cluster:
    """A master's store with its publisher, and as many workers as joined."""

    def __init__(self, folder: Path, store: SecurityStore, *, ack_timeout_seconds: float = 20.0) -> None:
        self.folder = folder
        self.store = store
        self.publisher = SecurityPublisher(
            store, counters=Counters(), ack_timeout_seconds=ack_timeout_seconds, poll_seconds=0.02
        )
        files = FilePublisher(folder, clock=SystemClock(), counters=Counters())
        self.service = ReplicationService(
            folder, files=files, security=store, registry=NoRegistry(), authorize=lambda context: ThisRelease()
        )
        self.snapshots = 0

    @asynccontextmanager
    async def worker(self, name: str, store: SecurityStore) -> AsyncIterator[tuple[Wire, SecurityApplier]]:
        applier = SecurityApplier(store, retry_seconds=0.02, retry_most_seconds=0.05)
        async with serving(self.service) as channel, running(applier):
            wire = Wire(name, channel, self.publisher, applier)
            await wire.join()
            try:
                yield wire, applier
            finally:
                if wire.open:
                    await wire.leave()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[SecurityStore]]:
    """The master's and two replicas."""
    made = [SecurityStore(tmp_path / f"{n}.db", writable=n == 0, kept_revisions=20) for n in range(3)]
    yield made
    for store in made:
        store.close()


@asynccontextmanager
async def cluster_of(
    tmp_path: Path, store: SecurityStore, *, ack_timeout_seconds: float = 20.0
) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path, store, ack_timeout_seconds=ack_timeout_seconds)
    async with running(cluster.publisher):
        yield cluster
    cluster.service.close()


def base_of(message: pb.MasterMessage) -> int:
    return message.security.base if message.security.changes else -1


async def test_a_change_is_confirmed_when_all_workers_have_acknowledged_it(
    tmp_path: Path, stores: list[SecurityStore]
) -> None:
    master, one, two = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster:
        assert await cluster.publisher.confirmed(1) == []
        async with cluster.worker("beta", one) as (first, _), cluster.worker("gamma", two):
            assert await cluster.publisher.confirmed(1) == []
            for number in range(2, 6):
                revision = put(master, number)
                assert await cluster.publisher.confirmed(revision) == []
                assert one.revision() == two.revision() == revision
            assert one.digest() == two.digest() == master.digest()
            assert [base_of(push) for push in first.pushes] == [-1, 1, 2, 3, 4]


async def test_several_changes_in_flight(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one):
        waits = []
        for number in range(2, 12):
            revision = put(master, number)
            waits.append(asyncio.create_task(cluster.publisher.confirmed(revision)))
            await asyncio.sleep(0)
        assert await asyncio.gather(*waits) == [[]] * 10
        assert one.digest() == master.digest()


async def test_commits_of_another_process_are_found(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (_, applier):
        other = SecurityStore(tmp_path / "0.db")
        revision = put(other, 2)
        other.close()
        assert await applier.wait_for(revision, LIMIT_SECONDS)


async def test_a_slow_worker_is_named_after_the_timeout(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, two = stores
    put(master, 1)
    async with (
        cluster_of(tmp_path, master, ack_timeout_seconds=0.3) as cluster,
        cluster.worker("slow", one) as (slow, applier),
        cluster.worker("quick", two),
    ):
        await until(lambda: one.revision() == two.revision() == 1)
        slow.flowing.clear()
        revision = put(master, 2)
        assert await cluster.publisher.confirmed(revision) == ["slow"]
        assert two.revision() == revision
        assert not await applier.wait_for(revision, 0.01)
        slow.flowing.set()
        assert await applier.wait_for(revision, LIMIT_SECONDS)
        assert await cluster.publisher.confirmed(revision) == []


async def test_a_worker_that_leaves_is_not_waited_for_but_named(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (wire, _):
        await until(lambda: one.revision() == 1)
        wire.flowing.clear()
        waiting = asyncio.create_task(cluster.publisher.confirmed(put(master, 2)))
        await until(lambda: wire.pushes[-1].security.revision == 2)
        await wire.leave()
        assert await waiting == ["beta"]
        assert await cluster.publisher.confirmed(2) == []


async def test_a_brief_absence_needs_the_changes_a_long_one_a_snapshot(
    tmp_path: Path, stores: list[SecurityStore]
) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster:
        async with cluster.worker("beta", one):
            assert await cluster.publisher.confirmed(1) == []
        for number in range(2, 5):
            put(master, number)
        async with cluster.worker("beta", one) as (wire, applier):
            assert await applier.wait_for(4, LIMIT_SECONDS)
            assert [base_of(push) for push in wire.pushes] == [1]
        for number in range(5, 60):
            put(master, number)
        async with cluster.worker("beta", one) as (wire, applier):
            assert await applier.wait_for(59, LIMIT_SECONDS)
            assert [base_of(push) for push in wire.pushes] == [-1]
        assert one.digest() == master.digest()


async def test_a_replica_of_another_master_is_replaced_and_both_are_named(
    tmp_path: Path, stores: list[SecurityStore], caplog: pytest.LogCaptureFixture
) -> None:
    master, one, _ = stores
    stranger = SecurityStore(tmp_path / "stranger.db")
    for number in range(1, 8):
        put(stranger, number, f"strange {number}")
    one.apply_snapshot(stranger.snapshot())
    stranger.close()
    former = one.store_id()
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one):
        assert await cluster.publisher.confirmed(1) == []
        assert one.store_id() == master.store_id()
        assert one.digest() == master.digest()
    [logged] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert former in logged
    assert master.store_id() in logged


async def test_a_master_without_users_is_not_followed(
    tmp_path: Path, stores: list[SecurityStore], caplog: pytest.LogCaptureFixture
) -> None:
    master, one, two = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one):
        assert await cluster.publisher.confirmed(1) == []
    lost = SecurityStore(tmp_path / "lost.db")
    before, refused = one.digest(), f"{lost.store_id()} at revision 0 holds no users"
    async with cluster_of(tmp_path, lost) as cluster, cluster.worker("beta", one), cluster.worker("gamma", two):
        await until(lambda: sum(refused in record.getMessage() for record in caplog.records) >= 4)
        logged = [record.getMessage() for record in caplog.records if refused in record.getMessage()]
        assert any(f"keeps what it has, store {master.store_id()} at revision 1" in line for line in logged)
        assert any("keeps what it has, nothing" in line for line in logged)
        assert (one.digest(), two.store_id()) == (before, "")
    lost.close()


async def test_a_restored_master_is_followed_back_and_that_is_logged(
    tmp_path: Path, stores: list[SecurityStore], caplog: pytest.LogCaptureFixture
) -> None:
    master, one, _ = stores
    put(master, 1)
    with closing(sqlite3.connect(tmp_path / "0.db")) as source, closing(sqlite3.connect(tmp_path / "old.db")) as copy:
        source.backup(copy)
    put(master, 2)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one):
        assert await cluster.publisher.confirmed(2) == []
    with closing(SecurityStore(tmp_path / "old.db")) as restored:
        async with cluster_of(tmp_path, restored) as cluster, cluster.worker("beta", one):
            await until(lambda: f"store {restored.store_id()} went back from revision 2 to 1" in caplog.text)
            assert one.digest() == restored.digest()


async def test_damage_at_equal_revisions_is_repaired(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (wire, _):
        assert await cluster.publisher.confirmed(1) == []
        await until(lambda: cluster.publisher.position().digest)
        database = sqlite3.connect(tmp_path / "1.db")
        with database:
            database.execute("UPDATE roles SET name = 'intruder'")
        database.close()
        assert one.digest() != master.digest()
        await wire.heartbeat()
        await until(lambda: one.digest() == master.digest())


async def test_digests_of_other_tables_are_not_compared(
    tmp_path: Path, stores: list[SecurityStore], caplog: pytest.LogCaptureFixture
) -> None:
    """While one node is upgraded and the other is not: a digest of other columns always differs."""
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (wire, _):
        assert await cluster.publisher.confirmed(1) == []
        for revision, versions in ((1, (SCHEMA.version + 1, 1, 0)), (2, (SCHEMA.version,))):
            for version in versions:
                position = pb.Position(epoch=master.store_id(), revision=revision, digest="other", schema=version)
                wire.send(pb.MasterMessage(heartbeat=pb.MasterHeartbeat(security=position)))
            if revision == 1:
                put(master, 2)
                await until(lambda: one.revision() == 2)
                assert "differs" not in caplog.text
        await until(lambda: "differs from the master's at revision 2" in caplog.text)


async def test_a_lost_push_is_found_at_the_second_heartbeat(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (wire, applier):
        await until(lambda: one.revision() == 1)
        cluster.publisher.left(wire)
        put(master, 2)
        await until(lambda: cluster.publisher.position().revision == 2)
        await wire.heartbeat()
        await wire.heartbeat()
        assert await applier.wait_for(2, LIMIT_SECONDS)


async def test_changes_that_do_not_fit_lead_to_a_snapshot(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster, cluster.worker("beta", one) as (wire, applier):
        await until(lambda: one.revision() == 1)
        for changes in (b"\x91\x94\x02\xa4meta\x91\x01\xc0", b"\xc1"):
            wire.send(
                pb.MasterMessage(security=pb.SecurityPush(epoch=master.store_id(), base=1, revision=2, changes=changes))
            )
        put(master, 2)
        assert await applier.wait_for(2, LIMIT_SECONDS)
        await until(lambda: one.digest() == master.digest())


async def test_a_session_lost_during_a_snapshot(tmp_path: Path, stores: list[SecurityStore]) -> None:
    master, one, _ = stores
    put(master, 1)
    async with cluster_of(tmp_path, master) as cluster:
        applier = SecurityApplier(one, retry_seconds=0.02)
        async with running(applier):
            async with serving(cluster.service) as doomed:
                first = Wire("beta", doomed, cluster.publisher, applier)
                await doomed.close(None)
                await first.join()
                await until(lambda: first.pushes)
            await first.leave()
            async with serving(cluster.service) as channel:
                second = Wire("beta", channel, cluster.publisher, applier)
                await second.join()
                assert await applier.wait_for(1, LIMIT_SECONDS)
                await second.leave()


def test_any_sequence_of_changes_and_absences_converges() -> None:
    steps = st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 5)), st.sampled_from([("drop", 1), ("leave", 0), ("join", 0)])
        ),
        max_size=12,
    )

    @settings(max_examples=40)
    @given(steps)
    def check(script: list[tuple[str, int]]) -> None:
        asyncio.run(follow(script))

    check()


async def follow(script: list[tuple[str, int]]) -> None:
    with new_root() as folder:
        master = SecurityStore(folder / "0.db", kept_revisions=3)
        replica = SecurityStore(folder / "1.db", writable=False)
        put(master, 1)
        try:
            async with cluster_of(folder, master) as cluster, cluster.worker("beta", replica) as (wire, applier):
                current = wire
                for count, (kind, number) in enumerate(script):
                    if kind == "put":
                        put(master, number, f"name {count}")
                    elif kind == "drop":
                        with master.write() as transaction:
                            transaction.delete(roles, number)
                    elif kind == "leave" and current.open:
                        await current.leave()
                    elif kind == "join" and not current.open:
                        current = Wire("beta", wire.channel, cluster.publisher, applier)  # type: ignore[arg-type]
                        await current.join()
                if not current.open:
                    current = Wire("beta", wire.channel, cluster.publisher, applier)  # type: ignore[arg-type]
                    await current.join()
                assert await cluster.publisher.confirmed(master.revision()) == []
                assert replica.digest() == master.digest()
                if current is not wire:
                    await current.leave()
        finally:
            master.close()
            replica.close()


async def test_a_worker_of_generation_2_is_not_sent_what_it_does_not_know(
    tmp_path: Path, stores: list[SecurityStore]
) -> None:
    master, one, two = stores
    put(master, 1)
    async with (
        cluster_of(tmp_path, master) as cluster,
        cluster.worker("beta", one) as (earlier, _),
        cluster.worker("gamma", two),
    ):
        earlier.protocol = 2
        assert await cluster.publisher.confirmed(1) == []
        number = silence(master, levels=(1, 3))
        assert await cluster.publisher.confirmed(master.revision()) == []
        assert [[row["id"] for row in rows_of(store)] for store in (one, two)] == [[], [number]]
    assert known_snapshot(master.snapshot()).tables.keys() == master.snapshot().tables.keys() - SINCE_GENERATION_3


def rows_of(store: SecurityStore) -> list[Row]:
    with store.read() as tx:
        return tx.select(silences)
