"""WakeupListener between processes of a node."""

import asyncio
from pathlib import Path

import pytest

from secmon.agents.wakeups import WakeupListener, wake
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio


async def _ends(wakeups: WakeupListener) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        await wakeups.wait(3600)


async def test_a_notification_ends_the_wait_even_if_it_came_before(tmp_path: Path) -> None:
    path = tmp_path / "s"
    wake(path)  # there is no listener
    wakeups = WakeupListener(path)
    await wakeups.wait(0.01)
    for _ in range(300):
        wake(path)
    await _ends(wakeups)
    await wakeups.wait(0.01)
    wakeups.set()
    await _ends(wakeups)
    wakeups.close()
    assert not path.exists()


async def test_a_removed_or_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("stale")
    wakeups = WakeupListener(path)
    await wakeups.wait(0.01)
    path.unlink()
    await wakeups.wait(0.01)
    wake(path)
    await _ends(wakeups)
    wakeups.close()


async def test_without_a_folder_waits_end_by_time(tmp_path: Path) -> None:
    wakeups = WakeupListener(tmp_path / "absent/s")
    await wakeups.wait(0.01)
    wakeups.close()
