import asyncio
import gzip
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.common.counters import Counters
from secmon.common.logfile import setup_daemon_log
from secmon.common.paths import Paths
from secmon.config.options import InternalOptions
from secmon.daemons.log_rotation import LogRotationSettings, LogRotationTask
from tests.localtime import zone
from tests.manual_clock import ManualClock


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    (tmp_path / "logs").mkdir()
    with zone("Europe/Madrid"):
        yield Paths(tmp_path)


@pytest.fixture
def clock(paths: Paths) -> Iterator[ManualClock]:
    """A quarter to midnight on the fifth, in Madrid; the daemon log is set up on it."""
    clock = ManualClock(datetime(2026, 3, 5, 22, 45, tzinfo=UTC))
    log = setup_daemon_log(paths, "secmon-apid", formats=("plain", "json"), clock=clock)
    yield clock
    log.close()


def archived(paths: Paths) -> dict[str, list[str]]:
    """Closed parts by path below ``logs``: the texts of their entries."""
    return {
        str(path.relative_to(paths.logs)): gzip.decompress(path.read_bytes()).decode().splitlines()
        for path in sorted(paths.logs.rglob("*.gz"))
    }


@pytest.mark.anyio
async def test_day_change(paths: Paths, clock: ManualClock) -> None:
    task = LogRotationTask(paths, LogRotationSettings(), clock, Counters())
    logger = logging.getLogger("secmon.worker")
    logger.info("before")
    await task.step()
    clock.advance(15 * 60 + 9)  # nine seconds into the sixth
    logger.info("late")
    await task.step()
    assert archived(paths) == {}
    clock.advance(1)
    await task.step()
    logger.info("after")
    await task.step()
    parts = archived(paths)
    assert list(parts) == [
        "cluster/2026/Mar/cluster.log-05.gz",
        "secmon/2026/Mar/ossec-05.json.gz",
        "secmon/2026/Mar/ossec-05.log.gz",
    ]
    assert parts["secmon/2026/Mar/ossec-05.log.gz"] == [
        "2026/03/05 23:45:00 secmon-clusterd: INFO: before",
        "2026/03/06 00:00:09 secmon-clusterd: INFO: late",
    ]
    assert (paths.logs / "ossec.log").read_text().count("\n") == 1
    clock.advance(86400)
    await task.step()
    assert "secmon/2026/Mar/ossec-06.log.gz" in archived(paths)


@pytest.mark.anyio
async def test_run_works_until_cancelled(paths: Paths, clock: ManualClock) -> None:
    logging.getLogger("secmon.apid").info("x")
    clock.advance(3600)
    task = asyncio.create_task(LogRotationTask(paths, LogRotationSettings(), clock, Counters()).run())
    while "secmon/2026/Mar/ossec-05.log.gz" not in archived(paths):  # noqa: ASYNC110 - files have no event
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_size_stops_at_the_daily_maximum(paths: Paths, clock: ManualClock) -> None:
    task = LogRotationTask(paths, LogRotationSettings(size_bytes=50, daily_rotations=2), clock, Counters())
    for _ in range(4):
        logging.getLogger("secmon.apid").info("a text that is long enough")
        task.step_now()
    assert [name for name in archived(paths) if name.endswith(".log.gz")] == [
        "secmon/2026/Mar/ossec-05-001.log.gz",
        "secmon/2026/Mar/ossec-05-002.log.gz",
    ]
    assert (paths.logs / "ossec.log").read_text().count("\n") == 2


def test_leftovers_are_compressed_and_old_parts_deleted_at_start(paths: Paths, clock: ManualClock) -> None:
    folder = paths.logs / "secmon/2026"
    for name in ("Jan/ossec-01.log.gz", "Mar/ossec-04.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x\n")
    LogRotationTask(paths, LogRotationSettings(), clock, Counters()).step_now()
    assert archived(paths) == {"secmon/2026/Mar/ossec-04.log.gz": ["x"]}
    assert not (folder / "Jan").exists()


def test_without_compression_parts_stay_plain(paths: Paths, clock: ManualClock) -> None:
    logging.getLogger("secmon.apid").info("x")
    clock.advance(3600)
    LogRotationTask(paths, LogRotationSettings(compress=False), clock, Counters()).step_now()
    assert (paths.logs / "secmon/2026/Mar/ossec-05.log").is_file()


def test_a_failure_is_counted_and_tried_again_a_minute_later(paths: Paths, clock: ManualClock) -> None:
    logging.getLogger("secmon.apid").info("x")
    (paths.logs / "secmon").write_text("a file where the folder should be")
    counters = Counters()
    task = LogRotationTask(paths, LogRotationSettings(), clock, counters)
    clock.advance(3600)
    task.step_now()
    failures = counters.snapshot()["log.rotation_errors"]
    assert failures > 0
    task.step_now()
    assert counters.snapshot()["log.rotation_errors"] == failures
    (paths.logs / "secmon").unlink()
    clock.advance(61)
    task.step_now()
    assert "secmon/2026/Mar/ossec-05.log.gz" in archived(paths)


def test_settings_from_internal_options() -> None:
    values = {
        "monitord.compress": 0,
        "monitord.day_wait": 20,
        "monitord.keep_log_days": 7,
        "monitord.size_rotate": 2,
        "monitord.daily_rotations": 3,
    }
    assert LogRotationSettings.of(InternalOptions(values)) == LogRotationSettings(
        compress=False, day_wait_seconds=20, keep_days=7, size_bytes=2 << 20, daily_rotations=3
    )


@pytest.mark.anyio
async def test_a_log_that_was_removed_is_created_again(paths: Paths, clock: ManualClock) -> None:
    task = LogRotationTask(paths, LogRotationSettings(), clock, Counters())
    logging.getLogger("secmon.apid").info("lost")
    await task.step()
    (paths.logs / "ossec.log").unlink()
    await task.step()
    (line,) = (paths.logs / "ossec.log").read_text().splitlines()
    assert line.endswith("ossec.log was removed with its content; a new file is written")
    await task.step()
    assert (paths.logs / "ossec.log").read_text().count("\n") == 1


@pytest.mark.anyio
async def test_a_log_that_was_rotated_was_not_removed(paths: Paths, clock: ManualClock) -> None:
    task = LogRotationTask(paths, LogRotationSettings(), clock, Counters())
    logging.getLogger("secmon.apid").info("before")
    await task.step()
    clock.advance(16 * 60)
    await task.step()
    await task.step()
    assert not (paths.logs / "ossec.log").exists()
