"""The parts of the link implement the protocols of ``cluster.node`` and of replication, for mypy and at run time."""

from pathlib import Path

import pytest

from secmon.cluster.lease import UnlimitedLease
from secmon.cluster.node import HealthSource, Lease, Membership
from tests.cluster_kit import cluster

pytestmark = pytest.mark.anyio


async def test_the_parts_implement_the_protocols(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        rosters: list[Membership] = [kit.master.sessions, kit.workers[0].link]
        health: HealthSource = kit.master.health
        lease: Lease = UnlimitedLease()
        assert [membership.members()[0].name for membership in rosters] == ["master", "master"]
        assert [membership.absent() for membership in rosters] == [[], ()]
        assert [item["info"]["name"] for item in health.health()] == ["master", "alpha"]
        assert set(health.health()[0]) == {"info"}
        assert list(health.health()[1]["status"]) == [
            "sync_integrity_free",
            "last_check_integrity",
            "last_sync_integrity",
            "sync_agent_info_free",
            "last_sync_agentinfo",
            "last_sync_agentgroup",
            "last_sync_full_agentgroup",
            "last_keep_alive",
        ]
        assert lease.remaining() > 0
