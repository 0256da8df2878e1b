"""``GET /manager/warnings`` and ``GET /cluster/warnings``."""

import pytest

from tests.operations.world import World

pytestmark = pytest.mark.anyio


async def test_each_node_says_what_needs_attention(cluster: World) -> None:
    for running in cluster.nodes.values():
        running.control.counted = {name: {} for name in running.control.states}
    cluster.nodes["beta"].control.counted.pop("secmon-db")
    outcome = await cluster.outcome("GET /cluster/warnings", "admin")
    assert [item["name"] for item in outcome.items] == ["alpha", "beta", "gamma"]
    down = [{one["subject"] for one in item["warnings"] if one["kind"] == "daemon"} for item in outcome.items]
    assert down == [set(), {"secmon-db"}, set()]


async def test_a_node_without_a_cluster_answers_for_itself(alone: World) -> None:
    (item,) = (await alone.outcome("GET /manager/warnings", "admin")).items
    assert item["name"] == "manager"
    assert {one["kind"] for one in item["warnings"]} >= {"daemon"}
