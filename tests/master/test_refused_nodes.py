"""Refused nodes: code and reason are known on both sides."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cluster_kit import KEY, ClusterKit, Recorder, ShiftedClock, cluster
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def _refused(kit: ClusterKit, code: int) -> str:
    """Wait until worker and master both say ``code``; the master's reason."""
    worker, master = kit.workers[-1], kit.master
    await until(lambda: worker.link.refusal and worker.link.refusal.code == code)
    assert not worker.link.connected.is_set()
    shown = master.health.health()[0]["refused"][-1]
    assert (shown["name"], shown["ip"], shown["code"]) == (worker.settings.node_name, "127.0.0.1", code)
    assert shown["time"].endswith("Z")
    assert worker.link.reason.startswith(str(code))
    return str(shown["reason"])


async def test_wrong_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path) as kit:
        wrong = "x" * 32
        await kit.start_worker("alpha", key=wrong.encode())
        await _refused(kit, 3025)
        assert wrong not in caplog.text
        assert KEY.decode() not in caplog.text


async def test_key_changed_after_enrolment(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        await kit.workers.pop().stop(grace=0)
        await kit.start_worker("alpha", key=b"y" * 32)
        await _refused(kit, 3025)


async def test_name_of_a_connected_node(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        await kit.start_worker("alpha", folder="other-installation")
        assert "alpha is connected from 127.0.0.1" in await _refused(kit, 3028)
        assert len(kit.master.sessions.all()) == 1


async def test_names_that_differ_by_case_conflict(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        await kit.start_worker("Alpha")
        await _refused(kit, 3028)


async def test_name_of_the_master(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        await kit.start_worker("master", folder="alpha")
        await _refused(kit, 3029)


async def test_other_cluster(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        await kit.start_worker("alpha", cluster_name="elsewhere")
        assert "elsewhere" in await _refused(kit, 3030)


@pytest.mark.parametrize(("minutes", "words"), [(10, "ahead of"), (-10, "behind")])
async def test_clock_skew(tmp_path: Path, minutes: int, words: str) -> None:
    async with cluster(tmp_path) as kit:
        await kit.start_worker("alpha", clock=ShiftedClock(timedelta(minutes=minutes)))
        assert words in await _refused(kit, 3041)


async def test_a_master_of_later_generations_is_refused_by_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = SimpleNamespace(PROTOCOL=9, MIN_PROTOCOL=9)
    monkeypatch.setattr("secmon.master.membership_service.version", later)  # what the master says of itself
    async with cluster(tmp_path) as kit:
        worker = await kit.start_worker("alpha")
        refusal = await until(lambda: worker.link.refusal)
        assert refusal is not None
        assert (refusal.code, "generations 9 to 9 of the link, this node" in refusal.message) == (3031, True)


async def test_a_clock_that_is_years_off_is_noticed_by_the_worker(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        worker = await kit.start_worker("alpha", clock=ShiftedClock(timedelta(days=-900)))
        await until(lambda: worker.link.refusal)
        assert "by the clock of this node" in worker.link.reason
        assert worker.link.reason.startswith("3041")


async def test_the_refusal_is_removed_when_the_node_joins(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        clock = ShiftedClock(timedelta(minutes=10))
        worker = await kit.start_worker("alpha", clock=clock)
        await _refused(kit, 3041)
        clock.offset = timedelta()
        await kit.joined("alpha")
        assert worker.link.refusal is None
        assert "refused" not in kit.master.health.health()[0]


@pytest.mark.parametrize(("minutes", "words"), [(10, "ahead of"), (-10, "behind")])
async def test_clock_skew_ends_the_session(tmp_path: Path, minutes: int, words: str) -> None:
    kit, clock, recorder = ClusterKit(tmp_path), ShiftedClock(), Recorder()
    try:
        await kit.start_master()
        kit.master.sessions.listeners.append(recorder)
        await kit.start_worker("alpha", clock=clock)
        await kit.joined("alpha")
        clock.offset = timedelta(minutes=minutes)
        assert words in await _refused(kit, 3041)
        [(name, reason)] = recorder.leaves
        assert name == "alpha"
        assert reason.startswith("3041: The clocks of the nodes differ too much: the node is ")
        assert words in reason
        clock.offset = timedelta()
        await kit.joined("alpha")
    finally:
        await kit.stop()
