"""A dozen nodes on one machine. ``python -m bench`` measures with twenty."""

from collections.abc import Iterator

import pytest

from tests.integration.kit import RealCluster, cluster
from tests.waiting import wait_until

RULE = """<group name="own,"><rule id="100900" level="7"><match>grocery</match>
<description>Groceries</description></rule></group>"""


@pytest.fixture(scope="module")
def dozen() -> Iterator[RealCluster]:
    # A dozen event loops share two cores here: beats are slower, and a start takes its time.
    slow = {"clusterd.heartbeat_ms": 1000, "clusterd.heartbeat_misses": 10, "clusterd.security_lease": 60}
    with cluster(workers=11, options=slow, single_process=True) as running:
        yield running


@pytest.mark.timeout(300)
def test_a_dozen_nodes_answer_as_one(dozen: RealCluster) -> None:
    everybody = sorted(node.name for node in dozen.nodes)
    for asked in (dozen.master, dozen.workers[-1]):
        body = dozen.call(asked, "/cluster/configuration/validation")
        assert [item["name"] for item in body["data"]["affected_items"]] == everybody
        assert body["error"] == 0


@pytest.mark.timeout(300)
def test_a_change_reaches_all(dozen: RealCluster) -> None:
    (dozen.master.paths.etc / "rules" / "new.xml").write_text(RULE)
    dozen.wait_converged()
    synced = dozen.call(dozen.workers[3], "/cluster/ruleset/synchronization")["data"]["affected_items"]
    assert len(synced) == 12
    assert all(item["synced"] for item in synced)


@pytest.mark.timeout(300)
def test_a_revocation_is_confirmed_by_all(dozen: RealCluster) -> None:
    token = dozen.login()
    changed = dozen.workers[5].request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
    assert changed.status_code == 200
    assert "Not yet confirmed" not in changed.text
    assert {node.request("GET", "/", token=token).status_code for node in dozen.nodes} == {401}


@pytest.mark.timeout(300)
def test_a_third_of_them_leave_and_come_back(dozen: RealCluster) -> None:
    leaving = dozen.workers[::3]
    for node in leaving:
        node.kill_all()
    wait_until(lambda: len(dozen.members()) == 12 - len(leaving), seconds=120, what="the others remain")
    body = dozen.call(dozen.workers[1], "/cluster/configuration/validation")
    assert sorted(body["dapi_errors"]) == sorted(node.name for node in leaving)
    assert body["data"]["total_affected_items"] == 12 - len(leaving), body
    for node in leaving:
        node.start(wait=False)
    dozen.wait_whole(120)
    dozen.wait_converged()
