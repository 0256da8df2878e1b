"""Where events come from, as the master of a real cluster learns it from all nodes."""

import asyncio

from secmon.agents.sources.reports import WHOLE, SourceQuestion, SourceReport
from secmon.common.paths import Paths
from secmon.daemons.master_client import MasterClient
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.source_reports import gather_sources
from tests.integration.kit import RealCluster
from tests.integration.test_agents import agents_of, fleet_of
from tests.simulator.background import running
from tests.waiting import wait_until


async def gather(root: Paths, asked: dict[str, SourceQuestion]) -> dict[str, SourceReport]:
    node = open_node(read_installation(root))
    master = MasterClient(node, "test")
    try:
        return dict(await gather_sources(node, master)(asked, others=True))
    finally:
        await master.close()
        node.security.close()
        node.agents.close()


def test_the_master_knows_the_sources_of_all_nodes_and_they_what_is_silent(three: RealCluster) -> None:
    root = three.master.paths
    with running(fleet_of(three.nodes, 3, "source")) as fleet:
        fleet.until(lambda c: c.connected == 3)
        names = {node.name for node in three.nodes}

        def number() -> dict[str, int]:
            """The agent of each node."""
            return {str(item.get("node_name")): int(item["id"]) for item in agents_of(three, "source").values()}

        wait_until(lambda: number().keys() >= names, what="the agents' states at the master")
        agents = number()

        def known() -> bool:
            found = asyncio.run(gather(root, {}))
            rows = {name: {row.key for row in report.rows} for name, report in found.items()}
            return all((agents[name], WHOLE) in rows.get(name, ()) for name in names)

        wait_until(known, what="sources of the agents of every node")
    worker = three.workers[0].name
    silent = (agents[worker], WHOLE, 1_700_000_000)
    asyncio.run(gather(root, {worker: SourceQuestion(silent=[silent])}))
    rows = asyncio.run(gather(root, {}))[worker].rows
    assert {(row.agent, row.location, row.silent_since) for row in rows if row.silent_since} == {silent}
    asyncio.run(gather(root, {worker: SourceQuestion(silent=[])}))
