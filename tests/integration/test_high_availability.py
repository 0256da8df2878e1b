"""A cluster that loses nodes and its database while clients change it: what docs/high-availability.md promises."""

from collections.abc import Callable, Iterator

import pytest

from secmon.cluster.leadership.role_file import read_role
from tests.faults.drill import Drill
from tests.faults.stage import Stage, staged
from tests.integration.ha_kit import HaCluster, secmon
from tests.integration.histories import Clients, check
from tests.integration.kit import RealNode
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.fixture
def cluster(stage: Stage) -> HaCluster:
    return stage.cluster


@pytest.mark.timeout(600)
def test_promises_are_kept_whatever_fails(stage: Stage) -> None:
    """Some of the faults of ``make faults``."""
    before = term(stage.cluster)
    kinds = ["master killed", "database killed", "master paused", "master stopped"]
    report = Drill(stage, seed=1, seconds=(6.0, 6.0)).run(kinds)
    print("\n".join(report.table()))
    assert report.violations == []
    assert term(stage.cluster) > before


def term(cluster: HaCluster) -> int:
    term = read_role(cluster.wait_leader().paths.role).term
    assert term is not None
    return term.number


def under_load(cluster: HaCluster, fault: Callable[[RealNode, Clients], RealNode], *, fails: bool = True) -> RealNode:
    """Clients change the cluster before, during and after ``fault``, which returns the master after it.

    ``fails``: whether requests may fail meanwhile.
    """
    first = cluster.wait_leader()
    clients = Clients(cluster)
    try:
        wait_until(lambda: clients.made() > 10, what="changes before")
        second = fault(first, clients)
        after = clients.made()
        wait_until(lambda: clients.made() > after + 10, seconds=60, what="changes after")
    finally:
        history = clients.stop()
        print(history.failures, history.codes, history.longest)
    assert fails or not history.failures
    wait_until(cluster.running_whole, seconds=60, what="all nodes")
    second = cluster.wait_leader()  # on a busy machine it may have moved once more
    check(history, cluster, second)
    for node in cluster.nodes:
        wait_until(lambda node=node: holds(cluster, node, history.acknowledged), what=f"the copy of {node.name}")  # type: ignore[misc]
    return second


def holds(cluster: HaCluster, node: RealNode, wanted: dict[str, str]) -> bool:
    found = cluster.call(node, "/security/users?limit=5000")["data"]["affected_items"]
    return {name for name, number in wanted.items() if not number} <= {item["username"] for item in found}


def test_a_switchover(cluster: HaCluster) -> None:
    def switch_over(first: RealNode, _: Clients) -> RealNode:
        second = next(node for node in cluster.nodes if node is not first)
        shown = secmon(first, "cluster", "switchover", second.name)
        assert f"{second.name} is the master in place of {first.name}" in shown
        assert cluster.wait_leader(other_than=first) is second
        return second

    under_load(cluster, switch_over, fails=False)
    leader = cluster.wait_leader()
    assert f"{leader.name} is the master since" in secmon(leader, "cluster", "health")
    status = cluster.call(leader, "/cluster/status")["data"]
    assert status["mastership"]["holder"] == leader.name
