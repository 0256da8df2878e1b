"""The cluster that the tests share which leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.conftest import SHARED_CLUSTER, group_of
from tests.integration.kit import RealCluster, cluster, free_port
from tests.integration.nodelogs import troubles

EXPECTED = (
    r"analysisd: ERROR: The (ruleset does not load|previous ruleset stays live)",
    r"secmon(:supervisor)?: ERROR: secmon-\w+: ((it did not start: )?killed by SIGKILL|it did not answer for)",
    r"syslog to 127\.0\.0\.1:\d+ \(tcp\): alerts wait",
    r"ERROR: ExecuteBatchError raised in core by servicer method",  # gRPC's word for a peer that was killed
)
"""Patterns of errors that tests of the shared cluster cause."""


ANSWERED_BY_ALL, ANSWERED_BY_ONE, ANSWERING_AGENT, SENT_ON = 100_911, 100_912, 7001, 100_913
"""Rules of tests whose alerts are answered by all agents, by one, or sent to :data:`RECEIVER` by the last worker."""
RECEIVER = free_port()
"""A port for syslog over TCP, where nothing listens but in tests."""
_RESPONSES = f"""
  <command><name>test-all</name><executable>test-all</executable></command>
  <command><name>test-one</name><executable>test-one</executable></command>
  <active-response><command>test-all</command><location>all</location><rules_id>{ANSWERED_BY_ALL}</rules_id></active-response>
  <active-response><command>test-one</command><location>defined-agent</location><agent_id>{ANSWERING_AGENT}</agent_id>
    <rules_id>{ANSWERED_BY_ONE}</rules_id></active-response>
"""
_OUTPUT = f"""
  <syslog_output><server>127.0.0.1</server><port>{RECEIVER}</port><protocol>tcp</protocol><format>json</format>
    <rule_id>{SENT_ON}</rule_id></syslog_output>
"""


def answer_alerts(made: RealCluster) -> None:
    """Active responses on all nodes, and an output on one: for alerts that only their tests raise."""
    for node in made.nodes:
        text = node.paths.main_config.read_text().rstrip().removesuffix("</ossec_config>")
        output = _OUTPUT if node is made.nodes[-1] else ""
        node.paths.main_config.write_text(f"{text}{_RESPONSES}{output}</ossec_config>\n")


@pytest.fixture(scope="package")
def shared_cluster() -> Iterator[RealCluster]:
    """A master and two workers; see :func:`three`, which tests use."""
    api = {"intervals.request_timeout": 5, "metrics.scrapers": ["127.0.0.0/8"]}
    with cluster(workers=2, api=api, before_start=answer_alerts) as running:
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
