"""A cluster whose master is lost, with agents and clients: what docs/high-availability.md promises."""

from collections.abc import Iterator

import pytest

from tests.integration.ha_kit import HaCluster, ha_cluster, secmon
from tests.postgres import PostgresServer
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cluster(postgres: PostgresServer) -> Iterator[HaCluster]:
    with ha_cluster(postgres.new_database()) as made:
        yield made


def test_changes_survive_the_loss_of_the_master(cluster: HaCluster) -> None:
    first = cluster.wait_leader()
    user = {"username": "kept-user", "password": "Long-Enough-1"}
    cluster.call(first, "/security/users", method="POST", json=user)
    cluster.call(first, "/groups", method="POST", json={"group_id": "kept"})
    cluster.call(first, "/agents", method="POST", json={"name": "kept-agent"})
    first.kill()
    second = cluster.wait_leader(other_than=first)
    names = {item["username"] for item in cluster.call(second, "/security/users")["data"]["affected_items"]}
    groups = {item["name"] for item in cluster.call(second, "/groups")["data"]["affected_items"]}
    agents = {item["name"] for item in cluster.call(second, "/agents")["data"]["affected_items"]}
    assert "kept-user" in names
    assert "kept" in groups
    assert "kept-agent" in agents
    assert (second.paths.shared / "kept" / "agent.conf").exists()
    cluster.call(second, "/agents", method="POST", json={"name": "after"})
    first.start(wait=False)
    wait_until(cluster.running_whole, seconds=60, what="the old master as a worker")
    assert cluster.leader() is second
    wait_until(lambda: first.files() == second.files(), seconds=30, what="equal files")
    assert "term 2" in secmon(first, "store", "status")
