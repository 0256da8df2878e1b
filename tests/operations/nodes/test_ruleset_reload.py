"""The ruleset on disk comes into force on request, or the answer says why it cannot (newer-versions.md 2)."""

import pytest

from secmon.common.file_io import write_file
from tests.operations.analyst import LOGIN_RULE, analysing, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

RELOAD, RELOAD_NODES = "PUT /manager/analysisd/reload", "PUT /cluster/analysisd/reload"


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


async def test_changed_files_come_into_force(office: Office) -> None:
    rules = office.node.paths.etc / "rules"
    async with analysing(office.node) as service:
        before = len(service.live_ruleset.current.ruleset.rules.by_id)
        write_file(rules / "login.xml", LOGIN_RULE)
        warned = await office.one(RELOAD)
        assert warned["msg"].startswith("etc/rules/shop_rules.xml:8: ")
        (rules / "shop_rules.xml").unlink()
        before -= 1
        reloaded = await office.one(RELOAD)
        assert reloaded == {"name": "manager", "msg": "The ruleset on disk is in force"}
        assert len(service.live_ruleset.current.ruleset.rules.by_id) == before + 1
        write_file(rules / "login.xml", b"<group><rule id='1'")
        body = await office.ask(RELOAD)
        [failure] = body["data"]["failed_items"]
        assert (failure["error"]["code"], failure["id"], body["error"]) == (1914, ["manager"], 1)
        assert "login.xml" in failure["error"]["message"]
        assert len(service.live_ruleset.current.ruleset.rules.by_id) == before + 1


async def test_every_node_answers_for_itself(cluster: World) -> None:
    office = stocked(cluster)
    async with analysing(cluster.nodes["beta"].node):
        body = await office.ask(RELOAD_NODES)
    assert [item["name"] for item in body["data"]["affected_items"]] == ["beta"]
    failures = [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]]
    assert failures == [(1121, ["alpha", "gamma"]), (3022, ["delta"])]
