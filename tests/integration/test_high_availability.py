"""A cluster that loses nodes and its database while clients change it: what docs/high-availability.md promises."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from secmon.cluster.leadership.role_file import read_role
from tests.faults.checker import violations
from tests.faults.clients import Clients
from tests.faults.drill import Drill
from tests.faults.end_state import read_everything
from tests.faults.history import History, Outcome
from tests.faults.objects import QUICK_KINDS
from tests.faults.stage import LEASE_SECONDS, Stage, staged
from tests.integration.ha_kit import HaCluster, secmon
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.mark.timeout(600)
def test_promises_are_kept_whatever_fails(stage: Stage) -> None:
    """Some of the faults of ``make faults``."""
    before = term(stage.cluster)
    kinds = ["master killed", "cluster daemon and database killed", "master paused", "master stopped"]
    report = Drill(stage, seed=1, seconds=(6.0, 6.0), pause=0.2).run(kinds)
    print("\n".join(report.table()))
    assert report.violations == []
    assert term(stage.cluster) > before


def term(cluster: HaCluster) -> int:
    term = read_role(cluster.wait_leader().paths.role).term
    assert term is not None
    return term.number


def test_no_request_fails_in_a_switchover(stage: Stage) -> None:
    """Clients see a pause: requests wait for the new master, and connections stay open."""
    cluster, history = stage.cluster, History()
    wait_until(cluster.running_whole, what="all nodes")
    first, before, listening = cluster.wait_leader(), term(cluster), port_daemons(cluster)
    second = next(node for node in cluster.nodes if node is not first)
    with clients_of(cluster, history) as clients:
        wait_until(lambda: history.count(Outcome.DONE) > 20, what="changes before")
        shown = secmon(first, "cluster", "switchover", second.name)
        done = history.count(Outcome.DONE)
        wait_until(lambda: history.count(Outcome.DONE) > done + 20, what="changes after")
    print(clients.statuses, f"longest request: {history.longest():.2f} s")
    assert f"{second.name} is the master in place of {first.name}" in shown
    if term(cluster) == before + 1:  # a busy machine may lose a master besides
        assert set(clients.statuses) == {"200"}
        assert port_daemons(cluster) == listening
    wait_until(cluster.running_whole, what="all nodes")
    read_everything(cluster, history, clients.objects())
    assert violations(history, lease_seconds=LEASE_SECONDS) == []
    assert f"{second.name} is the master since" in secmon(first, "cluster", "health")
    assert cluster.call(first, "/cluster/status")["data"]["mastership"]["holder"] == second.name


@contextmanager
def clients_of(cluster: HaCluster, history: History) -> Iterator[Clients]:
    clients = Clients(cluster, history, kinds=QUICK_KINDS)
    try:
        yield clients
    finally:
        clients.stop()


def port_daemons(cluster: HaCluster) -> list[int | None]:
    """The processes to which clients and agents are connected."""
    names = ("secmon-apid", "secmon-remoted", "secmon-authd")
    return [node.pid(name) for node in cluster.nodes for name in names]
