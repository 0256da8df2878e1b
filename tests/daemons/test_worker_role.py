"""What a worker's cluster daemon does with applied files."""

import asyncio
from pathlib import Path

import pytest

from secmon.agents.wakeups import WakeupListener
from secmon.common.paths import Paths
from secmon.daemons.worker_role import notify_link
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio


async def test_the_agent_link_is_notified_of_merged_files_only(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.sockets.mkdir(parents=True)
    listener = WakeupListener(paths.merged_files_socket)
    await listener.wait(0.01)
    try:
        notify_link(paths, ["etc/rules/local.xml", "etc/shared/linux/agent.conf"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await listener.wait(3600)
        notify_link(paths, ["etc/shared/linux/agent.conf", "etc/shared/linux/merged.mg"])
        async with asyncio.timeout(LIMIT_SECONDS):
            await listener.wait(3600)
    finally:
        listener.close()
