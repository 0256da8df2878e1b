"""Twenty nodes on one machine."""

from collections.abc import Iterator

import pytest

from tests.integration.kit import RealCluster, cluster
from tests.waiting import wait_until

RULE = """<group name="own,"><rule id="100900" level="7"><match>grocery</match>
<description>Groceries</description></rule></group>"""


@pytest.fixture(scope="module")
def twenty() -> Iterator[RealCluster]:
    # Twenty event loops share two cores here: beats are slower, and a start takes its time.
    slow = {"clusterd.heartbeat_ms": 1000, "clusterd.heartbeat_misses": 10, "clusterd.security_lease": 60}
    with cluster(workers=19, options=slow, single_process=True) as running:
        yield running


@pytest.mark.timeout(300)
def test_twenty_nodes_answer_as_one(twenty: RealCluster) -> None:
    everybody = sorted(node.name for node in twenty.nodes)
    for asked in (twenty.master, twenty.workers[-1]):
        body = twenty.call(asked, "/cluster/configuration/validation")
        assert [item["name"] for item in body["data"]["affected_items"]] == everybody
        assert body["error"] == 0


@pytest.mark.timeout(300)
def test_a_change_reaches_all_twenty(twenty: RealCluster) -> None:
    (twenty.master.paths.etc / "rules" / "new.xml").write_text(RULE)
    twenty.wait_converged()
    synced = twenty.call(twenty.workers[3], "/cluster/ruleset/synchronization")["data"]["affected_items"]
    assert len(synced) == 20
    assert all(item["synced"] for item in synced)


@pytest.mark.timeout(300)
def test_a_revocation_is_confirmed_by_all_twenty(twenty: RealCluster) -> None:
    token = twenty.login()
    changed = twenty.workers[5].request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
    assert changed.status_code == 200
    assert "Not yet confirmed" not in changed.text
    assert {node.request("GET", "/", token=token).status_code for node in twenty.nodes} == {401}


@pytest.mark.timeout(300)
def test_half_of_them_leave_and_come_back(twenty: RealCluster) -> None:
    leaving = twenty.workers[::2]
    for node in leaving:
        node.kill_all()
    wait_until(lambda: len(twenty.members()) == 20 - len(leaving), seconds=120, what="the others remain")
    body = twenty.call(twenty.workers[1], "/cluster/configuration/validation")
    assert sorted(body["dapi_errors"]) == sorted(node.name for node in leaving)
    assert body["data"]["total_affected_items"] == 20 - len(leaving), body
    for node in leaving:
        node.start(wait=False)
    twenty.wait_whole(120)
    twenty.wait_converged()
