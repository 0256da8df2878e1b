"""A cluster whose master is lost while clients change it: what docs/high-availability.md promises."""

import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.integration.ha_kit import HaCluster, ha_cluster, is_master, secmon
from tests.integration.histories import Clients, check
from tests.integration.kit import RealNode
from tests.postgres import PostgresServer
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cluster(postgres: PostgresServer) -> Iterator[HaCluster]:
    with ha_cluster(postgres.new_database()) as made:
        yield made


def processes(node: RealNode) -> list[psutil.Process]:
    assert node.process is not None
    supervisor = psutil.Process(node.process.pid)
    return [supervisor, *supervisor.children(recursive=True)]


def under_load(cluster: HaCluster, fault: Callable[[RealNode, Clients], RealNode]) -> RealNode:
    """Clients change the cluster before, during and after ``fault``, which returns the master after it."""
    first = cluster.wait_leader()
    clients = Clients(cluster)
    try:
        wait_until(lambda: clients.made() > 10, what="changes before")
        second = fault(first, clients)
        after = clients.made()
        wait_until(lambda: clients.made() > after + 10, seconds=60, what="changes after")
    finally:
        history = clients.stop()
        print(history.failures)
    wait_until(cluster.running_whole, seconds=60, what="all nodes")
    second = cluster.wait_leader()  # on a busy machine it may have moved once more
    check(history, cluster, second)
    for node in cluster.nodes:
        wait_until(lambda node=node: holds(cluster, node, history.acknowledged), what=f"the copy of {node.name}")  # type: ignore[misc]
    return second


def holds(cluster: HaCluster, node: RealNode, wanted: dict[str, str]) -> bool:
    found = cluster.call(node, "/security/users?limit=5000")["data"]["affected_items"]
    return {name for name, number in wanted.items() if not number} <= {item["username"] for item in found}


def test_a_killed_master(cluster: HaCluster) -> None:
    def kill(first: RealNode, _: Clients) -> RealNode:
        first.kill()
        second = cluster.wait_leader(other_than=first)
        first.start(wait=False)
        return second

    before = cluster.wait_leader()
    cluster.call(before, "/groups", method="POST", json={"group_id": "kept"})
    after = under_load(cluster, kill)
    assert after is not before
    assert (after.paths.shared / "kept" / "agent.conf").exists()
    wait_until(lambda: before.files() == after.files(), seconds=30, what="equal files")
    assert secmon(after, "audit", "verify")


def test_a_master_that_was_paused_writes_nothing_when_it_comes_back(cluster: HaCluster) -> None:
    def pause(first: RealNode, _: Clients) -> RealNode:
        stopped = processes(first)
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: any(is_master(node) for node in cluster.nodes if node is not first), seconds=60)
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        wait_until(lambda: not is_master(first), seconds=30, what="the old master as a worker")
        return cluster.wait_leader(other_than=first)

    under_load(cluster, pause)


def test_a_database_that_is_away(cluster: HaCluster, postgres: PostgresServer) -> None:
    def cut(first: RealNode, clients: Clients) -> RealNode:
        postgres.stop()
        wait_until(lambda: clients.history.codes[503] > 5, what="changes that are refused")
        assert cluster.call(first, "/agents?limit=1")
        assert cluster.login(first)
        postgres.start()
        return cluster.wait_leader()

    under_load(cluster, cut)


def test_a_planned_end(cluster: HaCluster) -> None:
    def stop(first: RealNode, _: Clients) -> RealNode:
        first.stop()
        second = cluster.wait_leader(other_than=first)
        first.start(wait=False)
        return second

    under_load(cluster, stop)


def test_a_switchover(cluster: HaCluster) -> None:
    def switch_over(first: RealNode, _: Clients) -> RealNode:
        second = next(node for node in cluster.nodes if node is not first)
        shown = secmon(first, "cluster", "switchover", second.name)
        assert f"{second.name} is the master in place of {first.name}" in shown
        assert cluster.wait_leader(other_than=first) is second
        return second

    under_load(cluster, switch_over)
    leader = cluster.wait_leader()
    assert f"{leader.name} is the master since" in secmon(leader, "cluster", "health")
    status = cluster.call(leader, "/cluster/status")["data"]
    assert status["mastership"]["holder"] == leader.name
