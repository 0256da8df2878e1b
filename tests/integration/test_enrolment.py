"""Agents enrol at any node; the master decides."""

import asyncio
from collections.abc import Iterator

import pytest

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.config.auth import read_auth
from secmon.config.main import load_main_config
from tests.agentlink.enrolment.asking import enrol, key_of
from tests.integration.kit import RealCluster, RealNode, cluster


@pytest.fixture(scope="module")
def two() -> Iterator[RealCluster]:
    with cluster(1, single_process=True) as made:
        yield made


def ask(node: RealNode, request: str) -> str:
    return asyncio.run(enrol(read_auth(load_main_config(node.paths)).port, request))


def test_a_worker_asks_the_master(two: RealCluster) -> None:
    (worker,) = two.workers
    first = key_of(ask(worker, "OSSEC A:'web-01' G:'default' IP:'src'"))
    second = key_of(ask(two.master, "OSSEC A:'web-02'"))
    assert (first[:3], second[:3]) == (("001", "web-01", "127.0.0.1"), ("002", "web-02", "any"))
    store = AgentStore(two.master.paths.agents_db)
    with store.read() as connection:
        assert [one.line for one in entries(connection)] == [" ".join(first), " ".join(second)]
    store.close()
    assert ask(worker, "OSSEC A:'web-02'") == "ERROR: Duplicate nameERROR: Unable to add agent"
    assert ask(worker, "OSSEC A:'web-03' G:'none'").startswith("ERROR: Invalid Group(s) Name(s)")


def test_a_worker_without_its_master_reports_it(two: RealCluster) -> None:
    (worker,) = two.workers
    two.master.stop()
    assert ask(worker, "OSSEC A:'web-04'") == "ERROR: Cannot comunicate with masterERROR: Unable to add agent"
    # What needs no master is refused as ever.
    assert ask(worker, "OSSEC A:'w'").startswith("ERROR: Invalid agent name: w")
    two.master.start()
    two.wait_whole()
    assert key_of(ask(worker, "OSSEC A:'web-04'"))[0] == "003"
