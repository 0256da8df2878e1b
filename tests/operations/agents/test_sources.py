"""Silent sources as clients read them, and as the master asks the nodes for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from secmon.agents.sources.reports import SourceQuestion, SourceReport, SourceRow
from secmon.agents.sources.silent_list import SilentSource, write_silent
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity, node_identity
from secmon.common.outcome import Plain
from secmon.operations.all import EXECUTABLE
from tests.agents.rows import agent, put
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000
LIST = "GET /agents/silent-sources"


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    """With the operations that nodes ask of each other."""
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


def silent(number: int, location: str, since: int) -> SilentSource:
    return SilentSource(
        agent=number, name=f"agent{number}", location=location, last_event=NOW, expected_seconds=900, since=since
    )


async def test_silent_sources_are_listed_to_those_who_may_read_the_agents(alone: World) -> None:
    office, node = Office(alone), alone.nodes["manager"].node
    with node.agents.write() as connection:
        put(connection, [agent(1, group="web"), agent(2, group="default")])
    assert (await office.ask(LIST))["data"]["total_affected_items"] == 0
    write_silent(node.paths.silent_sources, [silent(1, "/log", NOW + 901), silent(2, "", NOW + 950)])
    items = (await office.ask(LIST))["data"]["affected_items"]
    assert [one["agent"]["id"] for one in items] == ["002", "001"], "the latest first"
    assert items[1] == {
        "agent": {"id": "001", "name": "agent1"},
        "location": "/log",
        "last_event": "2027-01-15T08:00:00Z",
        "expected_seconds": 900,
        "since": "2027-01-15T08:15:01Z",
    }
    asked = await office.ask(LIST, q="agent.id=001", select=["location"])
    assert asked["data"]["affected_items"] == [{"location": "/log"}]
    await office.caller("webs", ("agent:read", "agent:group:web", "allow"))
    items = (await office.ask(LIST, "webs"))["data"]["affected_items"]
    assert [one["agent"]["id"] for one in items] == ["001"]
    node.paths.silent_sources.write_bytes(b"damaged")
    assert (await office.refused(LIST)).code == 1006


class Sources:
    """The sources of a node's analysis."""

    def __init__(self, name: str) -> None:
        self.asked: list[SourceQuestion] = []
        self._row = SourceRow(1, f"/log/{name}", NOW, NOW, 1, 0)

    async def sources(self, question: SourceQuestion) -> SourceReport:
        self.asked.append(question)
        return SourceReport(now=NOW, reached=NOW, since=NOW, epoch=NOW, rows=[self._row])


async def gather(world: World, worker: str = "", **params: Any) -> dict[str, Any]:
    call = world.call("PUT /internal/sources", "admin", params, on=world.nodes["alpha"])
    identity = node_identity() if worker else local_identity()
    result = await world.nodes["alpha"].router.route(structs.replace(call, node=worker, identity=identity))
    assert isinstance(result, Plain)
    return dict(result.data)


async def test_the_master_asks_all_nodes_and_workers_may_not(cluster: World) -> None:
    made = {name: Sources(name) for name in ("alpha", "beta")}
    for name, one in made.items():
        cluster.nodes[name].node.services.analysis = one  # type: ignore[assignment]  # what is asked of it here
    cluster.nodes["gamma"].node.services.analysis = None
    question = {"after": NOW, "silent": [[1, "/log", NOW]]}
    found = await gather(cluster, asked={"beta": question, "delta": question}, others=True)
    assert {name: report["rows"][0][1] for name, report in found.items()} == {
        "alpha": "/log/alpha",
        "beta": "/log/beta",
    }
    assert made["alpha"].asked == [SourceQuestion()]
    assert made["beta"].asked == [SourceQuestion(after=NOW, silent=[(1, "/log", NOW)])]
    assert list(await gather(cluster, asked={"beta": {}})) == ["beta"]
    with pytest.raises(SecmonError) as refused:
        await gather(cluster, worker="beta", others=True)
    assert refused.value.code == 4000
