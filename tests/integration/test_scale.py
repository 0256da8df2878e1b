"""Eight nodes on one machine. ``python -m bench`` measures with twenty."""

from collections.abc import Iterator

import pytest

from tests.integration.kit import RealCluster, cluster
from tests.waiting import wait_until

RULE = """<group name="own,"><rule id="100900" level="7"><match>grocery</match>
<description>Groceries</description></rule></group>"""


@pytest.fixture(scope="module")
def eight() -> Iterator[RealCluster]:
    # Eight event loops share two cores here: beats are slower, and a start takes its time.
    slow = {"clusterd.heartbeat_ms": 1000, "clusterd.heartbeat_misses": 10, "clusterd.security_lease": 60}
    slow |= {"clusterd.ack_timeout_ms": 60_000}
    with cluster(workers=7, options=slow, single_process=True) as running:
        yield running


def test_eight_nodes_answer_as_one(eight: RealCluster) -> None:
    everybody = sorted(node.name for node in eight.nodes)
    for asked in (eight.master, eight.workers[-1]):
        body = eight.call(asked, "/cluster/configuration/validation")
        assert [item["name"] for item in body["data"]["affected_items"]] == everybody
        assert body["error"] == 0


def test_a_change_reaches_all(eight: RealCluster) -> None:
    (eight.master.paths.etc / "rules" / "new.xml").write_text(RULE)
    eight.wait_converged()
    synced = eight.call(eight.workers[3], "/cluster/ruleset/synchronization")["data"]["affected_items"]
    assert len(synced) == 8
    assert all(item["synced"] for item in synced)


def test_a_revocation_is_confirmed_by_all(eight: RealCluster) -> None:
    token = eight.login()
    changed = eight.workers[5].request("PUT", "/security/config", token=token, json={"rbac_mode": "white"})
    assert changed.status_code == 200
    assert "Not yet confirmed" not in changed.text
    assert {node.request("GET", "/", token=token).status_code for node in eight.nodes} == {401}


def test_a_third_of_them_leave_and_come_back(eight: RealCluster) -> None:
    leaving = eight.workers[::3]
    for node in leaving:
        node.kill_all()
    wait_until(lambda: len(eight.members()) == 8 - len(leaving), seconds=120, what="the others remain")
    body = eight.call(eight.workers[1], "/cluster/configuration/validation")
    assert sorted(body["dapi_errors"]) == sorted(node.name for node in leaving)
    assert body["data"]["total_affected_items"] == 8 - len(leaving), body
    for node in leaving:
        node.start(wait=False)
    eight.wait_whole(120)
    eight.wait_converged()
