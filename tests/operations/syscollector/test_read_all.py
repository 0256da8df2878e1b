"""The inventory of all agents: each node answers for its own, and the pages are those of one collection."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.inventory import schema
from secmon.operations.all import EXECUTABLE
from tests.operations.inventory.hosts import HOLDERS, NODES, counted_statements, members, package, register, report
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer, ObservedPeer, World

pytestmark = pytest.mark.anyio

READ = "GET /experimental/syscollector/packages"
WORDS = ("alpha", "Beta", "beta", "gamma", "10", "9")


@pytest.fixture
def office(hosts: Office) -> Office:
    report(
        hosts.world,
        schema.packages,
        *(package(number, name) for number in HOLDERS for name in ("bash", f"own{number}")),
    )
    return hosts


def failed(body: dict[str, Any]) -> list[tuple[int, list[str]]]:
    return [(entry["error"]["code"], entry["id"]) for entry in body["data"]["failed_items"]]


async def test_rows_are_ordered_by_agent_and_paged_globally(office: Office) -> None:
    body = await office.ask(READ, offset=1, limit=3)
    assert members(body, "agent_id", "name") == [("001", "own1"), ("002", "bash"), ("002", "own2")]
    assert body["data"]["total_affected_items"] == 2 * len(HOLDERS)
    by_name = await office.ask(READ, sort="name", select=["name"], limit=6)
    assert members(by_name, "agent_id", "name") == [
        *((one, "bash") for one in ("001", "002", "003", "004", "1000")),
        ("001", "own1"),
    ]
    assert by_name["data"]["affected_items"][0] == {"agent_id": "001", "name": "bash"}


async def test_named_agents(office: Office) -> None:
    body = await office.ask(READ, agents_list=["1000", "005", "000", "777"], name="bash")
    assert members(body, "agent_id", "name") == [("1000", "bash")]
    assert failed(body) == [(1701, ["777"]), (2007, ["005"])]
    assert (await office.refused(READ, agents_list=["005"])).code == 2007
    assert members(await office.ask(READ, agents_list=["000"]), "name") == []


async def test_each_caller_sees_the_agents_of_its_policies(office: Office) -> None:
    await office.caller("webs", ("syscollector:read", "agent:group:web", "allow"))
    await office.caller("only", ("syscollector:read", "agent:id:002", "allow"))
    web, two = await office.ask(READ, "webs", name="bash"), await office.ask(READ, "only", name="bash")
    assert [one for (one,) in members(web, "agent_id")] == ["002", "003", "1000"]
    assert [one for (one,) in members(two, "agent_id")] == ["002"]
    named = await office.ask(READ, "only", agents_list=["001", "002"], name="bash")
    assert ([one for (one,) in members(named, "agent_id")], failed(named)) == (["002"], [(4000, ["001"])])
    assert (await office.refused(READ, "only", agents_list=["001"])).code == 4000
    assert (await office.refused("GET /syscollector/{agent_id}/packages", "only", agent_id="001")).code == 4000


async def test_a_node_that_is_away_costs_its_share(office: Office) -> None:
    office.world.peers["beta"] = AnsweringPeer(SecmonError(3022, ids=("beta",)))
    body = await office.ask(READ, name="bash")
    assert [one for (one,) in members(body, "agent_id")] == ["001", "004", "1000"]
    assert (failed(body), body["error"], list(body["dapi_errors"])) == ([(3022, ["002", "003"])], 2, ["beta"])


async def test_a_node_sends_no_more_rows_than_the_page_can_need(office: Office) -> None:
    for name in NODES:
        office.world.peers[name] = ObservedPeer(office.world._find_peer(name))
    report(office.world, schema.packages, *(package(2, f"many{each}") for each in range(50)))
    with counted_statements(office.world) as statements:
        body = await office.ask(READ, offset=2, limit=3, sort="-name")
    assert (len(members(body, "name")), body["data"]["total_affected_items"]) == (3, 2 * len(HOLDERS) + 50)
    assert len([one for one in statements if one.startswith("SELECT")]) <= 2 * len(NODES)


QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "sort": st.sampled_from(["name", "-name", "-size", "version,name", "-scan.time", "install_time", "scan.id"]),
        "offset": st.integers(0, 12),
        "limit": st.integers(1, 12),
        "search": st.sampled_from(["a", "BETA", "1", "-a", "9"]),
        "select": st.lists(st.sampled_from(["name", "size", "scan.id", "scan.time", "install_time"]), min_size=1),
        "name": st.sampled_from(WORDS),
        "agents_list": st.lists(st.sampled_from(["001", "002", "004", "1000"]), min_size=1),
    },
)
TIMES = ("2024/05/02 10:00:00", "2024/05/02 11:00:00", " ")
ROWS = st.lists(
    st.fixed_dictionaries(
        {"agent_id": st.sampled_from(sorted(HOLDERS)), "name": st.sampled_from(WORDS)},
        optional={
            "version": st.sampled_from(WORDS),
            "size": st.integers(0, 3),
            "scan_time": st.sampled_from(TIMES),
            "install_time": st.sampled_from((*TIMES, "20240502")),
            "scan_id": st.integers(0, 1),
        },
    ),
    max_size=25,
)


@pytest.fixture
async def pair(hosts: Office, tmp_path: Path, security_db: Path) -> AsyncIterator[tuple[World, World]]:
    """A cluster, and a node that holds the rows of all its agents."""
    single = World(tmp_path / "single", security_db, catalogue=EXECUTABLE)
    single.start(clustered=False)
    register(single)
    yield hosts.world, single
    single.close()


@given(rows=ROWS, asked=QUERIES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_of_several_nodes_are_those_of_one(
    pair: tuple[World, World], rows: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    for world in pair:
        for running in world.nodes.values():
            with running.node.inventory.write() as connection:
                connection.execute(schema.packages.delete())
        report(world, schema.packages, *({**row, "item_id": f"{at}"} for at, row in enumerate(rows)))
    cluster, single = [await world.body(READ, **asked) for world in pair]
    assert cluster == single
