"""Any node may be asked, and the answer is one."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.kit import RealCluster
from tests.waiting import LIMIT_SECONDS

NAMES = ["master-node", "worker1", "worker2"]


@pytest.mark.parametrize("asked", range(3))
@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/cluster/nodes", "name"),
        ("/cluster/api/config", "node_name"),
        ("/cluster/configuration/validation", "name"),
        ("/cluster/ruleset/synchronization", "name"),
    ],
)
def test_every_node_gives_the_whole_answer(three: RealCluster, asked: int, path: str, key: str) -> None:
    body = three.call(three.nodes[asked], path)
    found = [item[key] for item in body["data"]["affected_items"]]
    assert (found[0], sorted(found)) == ("master-node", NAMES)  # /cluster/nodes: in order of connection
    assert (body["error"], body["data"]["total_affected_items"]) == (0, 3)
    assert "dapi_errors" not in body


@pytest.mark.parametrize("asked", range(3))
@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize("what", ["status", "info", "configuration", "logs", "logs/summary"])
def test_one_node_is_asked_through_any(three: RealCluster, asked: int, named: str, what: str) -> None:
    body = three.call(three.nodes[asked], f"/cluster/{named}/{what}")
    assert body["error"] == 0
    if what == "info":
        assert body["data"]["affected_items"][0]["path"].endswith(f"/{named}")
    if what == "configuration":
        section = body["data"]["affected_items"][0]["cluster"]
        assert section["node_name"] == named


def test_tokens_of_any_node_are_honoured_by_all(three: RealCluster) -> None:
    for issuer in three.nodes:
        token = three.login(issuer)
        for node in three.nodes:
            assert node.request("GET", "/", token=token).status_code == 200


def test_the_local_node_speaks_for_itself(three: RealCluster) -> None:
    for node in three.nodes:
        item = three.call(node, "/cluster/local/info")["data"]["affected_items"][0]
        assert item == {"node": node.name, "cluster": "test", "type": "master" if node is three.master else "worker"}
        config = three.call(node, "/cluster/local/config")["data"]["affected_items"][0]
        assert config["node_name"] == node.name
        assert config["key"] == "*****"
        assert three.call(node, "/cluster/status")["data"] == {"enabled": "yes", "running": "yes"}


def test_an_unknown_node_is_a_failed_item(three: RealCluster) -> None:
    for node in three.nodes:
        body = three.call(node, "/cluster/zeta/info")
        assert (body["error"], body["data"]["failed_items"][0]["error"]["code"]) == (1, 1730)
        assert body["data"]["failed_items"][0]["id"] == ["zeta"]
    mixed = three.call(three.workers[0], "/cluster/configuration/validation?nodes_list=worker2,zeta")
    assert (mixed["error"], mixed["data"]["affected_items"]) == (2, [{"name": "worker2", "status": "OK"}])


def test_health_shows_every_worker_in_step(three: RealCluster) -> None:
    items = three.call(three.workers[1], "/cluster/healthcheck")["data"]["affected_items"]
    assert [item["info"]["name"] for item in items] == NAMES
    assert "status" not in items[0]
    for item in items[1:]:
        assert item["status"]["last_keep_alive"].endswith("Z")
        assert item["status"]["sync_integrity_free"] is True
    assert three.call(three.master, "/cluster/healthcheck?nodes_list=zz")["data"]["affected_items"] == []


def test_newer_versions_are_known_to_the_master_only(three: RealCluster) -> None:
    path = "/manager/version/check?force_query=true"
    data = three.call(three.master, path)["data"]
    assert (data["update_check"], data["last_check_date"], data["last_available_major"]) == (False, "", {})
    assert three.call(three.master, path)["data"] == data
    for node in three.workers:
        answer = node.request("GET", path, token=three.login(node))
        assert (answer.status_code, answer.json()["error"]) == (404, 902)
        assert "dapi_errors" not in answer.json()


def test_collections_are_filtered_sorted_and_paged(three: RealCluster) -> None:
    def names(query: str) -> list[str]:
        body = three.call(three.workers[0], f"/cluster/nodes?{query}")
        return [item["name"] for item in body["data"]["affected_items"]]

    assert names("sort=-name") == NAMES[::-1]
    assert names("sort=name&offset=1&limit=1") == ["worker1"]
    assert names("q=type=worker;name~2") == ["worker2"]
    assert names("type=Worker&q=name=worker1,name=master-node") == ["worker1"]
    assert names("search=master") == ["master-node"]


def test_raw_configuration_comes_from_the_node_named(three: RealCluster) -> None:
    token = three.login(three.workers[0])
    answer = three.workers[0].request("GET", "/cluster/worker2/configuration?raw=true", token=token)
    assert answer.headers["content-type"].startswith("application/xml")
    assert "<node_name>worker2</node_name>" in answer.text


def test_changing_the_security_configuration_reaches_all_before_it_is_answered(three: RealCluster) -> None:
    for asked in three.nodes:
        token = three.login(asked)
        body = {"auth_token_exp_timeout": 800}
        changed = asked.request("PUT", "/security/config", token=token, json=body)
        assert changed.status_code == 200, changed.text
        assert "Not yet confirmed" not in changed.text
        for node in three.nodes:
            assert node.request("GET", "/", token=token).status_code == 401
        again = three.login(asked)
        for node in three.nodes:
            seen = node.request("GET", "/security/config", token=again).json()["data"]
            assert seen == {"auth_token_exp_timeout": 800, "rbac_mode": "white"}
    reset = three.master.request("DELETE", "/security/config", token=three.login())
    assert reset.status_code == 200
    assert three.call(three.workers[0], "/security/config")["data"]["auth_token_exp_timeout"] == 900


def test_fifty_fan_outs_at_once(three: RealCluster) -> None:
    token = three.login()
    path = "/cluster/configuration/validation?wait_for_complete=true"  # a busy host needs more than the limit

    def ask(number: int) -> dict[str, Any]:
        node = three.nodes[number % 3]
        answer = node.request("GET", path, token=token, timeout=LIMIT_SECONDS)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    with ThreadPoolExecutor(25) as pool:
        answers = list(pool.map(ask, range(50)))
    assert all([item["name"] for item in body["data"]["affected_items"]] == NAMES for body in answers)
