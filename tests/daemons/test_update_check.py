"""The daily question for newer versions."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from secmon.cluster.updates.check import UpdateService, UpdateSettings
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.daemons.update_check import DAY_SECONDS, LOOK_SECONDS, UpdateCheckTask
from tests.cluster.updates.test_releases import GOOD, document
from tests.common.webserver import answer, web_server
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

PAGE = answer(document(GOOD))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    paths.security.mkdir(parents=True)
    paths.newer_versions.parent.mkdir(parents=True)
    return paths


class Kept:
    """A task and what it works with; ``again``: as after a restart."""

    def __init__(self, paths: Paths, url: str) -> None:
        self.clock, self.counters = ManualClock(), Counters()
        settings = UpdateSettings(enabled=True, url=url)
        self.updates = UpdateService(paths, settings, clock=self.clock, counters=self.counters)
        self.again()

    def again(self) -> None:
        self.task = UpdateCheckTask(self.updates, self.clock)


async def test_once_a_day(paths: Paths) -> None:
    async with web_server({"/r": PAGE}) as server:
        kept = Kept(paths, server.url("/r"))
        elapsed = 0.0
        times: list[float] = []
        while elapsed < 3 * DAY_SECONDS:
            wait = await kept.task.look()
            assert 0 < wait <= LOOK_SECONDS
            if len(server.asked) > len(times):
                times.append(elapsed)
            kept.clock.advance(wait)
            elapsed += wait
        assert times == [0, DAY_SECONDS, 2 * DAY_SECONDS]


async def test_a_younger_answer_is_kept(paths: Paths) -> None:
    async with web_server({"/r": PAGE}) as server:
        kept = Kept(paths, server.url("/r"))
        await kept.updates.fetch(20)  # a client did
        kept.clock.advance(DAY_SECONDS - 100)
        kept.again()
        assert await kept.task.look() == 100
        assert len(server.asked) == 1
        kept.clock.advance(100)
        await kept.task.look()
        assert len(server.asked) == 2


async def test_an_answer_from_the_future_does_not_stand(paths: Paths) -> None:
    async with web_server({"/r": PAGE}) as server:
        kept = Kept(paths, server.url("/r"))
        await kept.updates.fetch(20)
        kept.clock.advance(-timedelta(days=400).total_seconds())
        await kept.task.look()
        assert len(server.asked) == 2


async def test_a_failure_is_logged_once_and_tried_again_after_an_hour(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    async with web_server({}) as server:
        kept = Kept(paths, server.url("/r"))
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                assert await kept.task.look() == LOOK_SECONDS
                kept.clock.advance(LOOK_SECONDS)
            assert len(server.asked) == 3
            assert [record.levelname for record in caplog.records] == ["ERROR"]
            assert "status 404" in caplog.text
            server.pages["/r"] = PAGE
            await kept.task.look()
            assert kept.counters.snapshot() == {"updates.asked": 1, "updates.failed": 3}
            server.pages.clear()
            kept.clock.advance(DAY_SECONDS)
            await kept.task.look()
        assert len(caplog.records) == 2


async def test_folders_that_cannot_be_used_do_not_end_it(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    paths.newer_versions.mkdir()
    kept = Kept(paths, "http://127.0.0.1:1/")
    assert await kept.task.look() == LOOK_SECONDS
    assert "newer-versions" in caplog.text
