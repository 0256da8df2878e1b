"""The cluster that the tests share which leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.conftest import SHARED_CLUSTER, group_of
from tests.integration.kit import RealCluster, cluster
from tests.integration.nodelogs import troubles

EXPECTED = (
    r"analysisd: ERROR: The (ruleset does not load|previous ruleset stays live)",
    r"secmon(:supervisor)?: ERROR: secmon-\w+: (killed by SIGKILL|it did not answer for)",
    r"ERROR: ExecuteBatchError raised in core by servicer method",  # gRPC's word for a peer that was killed
)
"""Patterns of errors that tests of the shared cluster cause."""


@pytest.fixture(scope="package")
def shared_cluster() -> Iterator[RealCluster]:
    """A master and two workers; see :func:`three`, which tests use."""
    with cluster(workers=2, api={"intervals.request_timeout": 5, "metrics.scrapers": ["127.0.0.0/8"]}) as running:
        yield running
        found = [line for node in running.nodes for line in troubles(node, EXPECTED)]
        assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def three(shared_cluster: RealCluster) -> RealCluster:
    """The shared cluster as a file of tests finds it: whole, and nothing there that other files have made."""
    shared_cluster.bring_back()
    shared_cluster.tidy()
    return shared_cluster


@pytest.fixture(autouse=True)
def begins_whole(request: pytest.FixtureRequest) -> None:
    """Every test of the shared cluster finds all nodes answering, with the master's files."""
    if "shared_cluster" in request.fixturenames:
        assert group_of(request.node.nodeid) == SHARED_CLUSTER, "name this file in tests/conftest.py"
        request.getfixturevalue("three").bring_back()
