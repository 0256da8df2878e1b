"""An agent synchronizes a table with a node, message by message, and is removed (agent-data.md 2)."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from secmon.inventory.schema import hotfixes, synchronizations
from secmon.inventory.store import InventoryStore
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import agents_of, fleet_of
from tests.inventory.synchronization.model_agent import ModelAgent, sha1
from tests.simulator.background import Background, running
from tests.waiting import wait_until

COMPONENT = "syscollector_hotfixes"


def rows(node: RealNode, column: Any) -> list[Any]:
    """The values of a column in the store of a node."""
    store = InventoryStore(node.paths.inventory_db)
    try:
        with store.read() as connection:
            return list(connection.execute(select(column).order_by(column)).scalars())
    finally:
        store.close()


class Link:
    """The connection of a simulated agent, and the answers that came over it."""

    def __init__(self, fleet: Background) -> None:
        self._fleet = fleet

    def send(self, *bodies: str) -> None:
        agent = self._fleet.fleet.agents[0]
        for body in bodies:
            assert self._fleet.call(lambda body=body: agent.report(b"5:syscollector:" + body.encode()))  # type: ignore[misc]

    def answers(self) -> list[str]:
        """The texts after ``#!-``."""
        return [one.text for one in list(self._fleet.fleet.commands) if one.kind == "sync"]


def test_a_first_synchronization_and_silence_after_it(three: RealCluster) -> None:
    node = three.workers[0]
    keys = ["KB1", "KB2", "KB3"]
    states: dict[str, Mapping[str, Any]] = {
        key: {"index": key, "timestamp": "", "attributes": {"hotfix": key, "checksum": sha1(key)}} for key in keys
    }
    agent = ModelAgent(COMPONENT, states)
    with running(fleet_of([node], 1, "sync", restarts=False)) as fleet:
        fleet.until(lambda c: c.connected == 1)
        link = Link(fleet)
        link.send(*agent.begin(100))
        fleet.until(lambda _: bool(link.answers()))
        (answer,) = link.answers()
        data = json.dumps({"begin": "KB1", "end": "KB3", "id": 100}, separators=(",", ":"))
        assert answer == f"{COMPONENT} dbsync no_data {data}"
        link.send(*agent.answered(answer))
        wait_until(lambda: rows(node, hotfixes.c.hotfix) == keys, what="the rows")
        link.send(*agent.begin(200))
        wait_until(lambda: rows(node, synchronizations.c.last_completion) == [200], what="an equal table")
        assert link.answers() == [answer]
        (item,) = three.call(node, f"/cluster/{node.name}/daemons/stats?daemons_list=secmon-db")["data"][
            "affected_items"
        ]
        tables = item["metrics"]["queries"]["received_breakdown"]["agent_breakdown"]["tables"]
        assert tables["syscollector"][COMPONENT] >= 5
    (agent_id,) = (one["id"] for one in agents_of(three, "sync").values())
    three.call(three.master, f"/agents?agents_list={agent_id}&status=all&older_than=0s", method="DELETE")
    wait_until(lambda: rows(node, hotfixes.c.hotfix) == [], what="the rows of a removed agent gone")
    assert rows(node, synchronizations.c.agent_id) == []
