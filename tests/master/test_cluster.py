"""A master and workers, over real TLS."""

from pathlib import Path

import pytest

from tests.cluster_kit import cluster, wait_until

pytestmark = pytest.mark.anyio


async def test_workers_enrol_join_and_beat(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        await wait_until(lambda: len(kit.workers[0].link.members()) == 3)
        members = kit.workers[0].link.members()
        assert [(m.name, m.type, m.ip) for m in members] == [
            ("master", "master", "127.0.0.1"),
            ("alpha", "worker", "127.0.0.1"),
            ("beta", "worker", "127.0.0.1"),
        ]
        assert kit.master.sessions.members() == list(members)

        def beaten() -> bool:
            return all(item["status"]["last_keep_alive"] != "n/a" for item in kit.master.health.health()[1:])

        await wait_until(beaten)
