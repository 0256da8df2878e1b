"""Responses to an alert of one node, on agents of the others: only what the master has in its configuration."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Plain
from secmon.operations.all import EXECUTABLE
from tests.agents.rows import put
from tests.operations.agents.test_commands import HELD, NODES
from tests.operations.fields import MemoryLink
from tests.operations.world import World

pytestmark = pytest.mark.anyio

ALERT = {"id": "1.2", "rule": {"id": "5712"}, "data": {"srcip": "192.0.2.7"}}
COMMAND = {"name": "firewall-drop", "executable": "drop", "timeout_allowed": "yes", "extra_args": "-x"}


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    """With the operations that nodes ask of each other."""
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


@pytest.fixture
def links(cluster: World) -> dict[str, MemoryLink]:
    """The link of each node; all nodes know all agents, and the command."""
    made = {name: MemoryLink() for name in NODES}
    for name, link in made.items():
        node = cluster.nodes[name].node
        node.services.agent_link = link
        with node.agents.write() as connection:
            put(connection, HELD)
        (node.paths.shared / "ar.conf").write_text("firewall-drop180 - drop - 180\n")
    return made


def configure(world: World, **section: str) -> None:
    """An active response in the configuration of the master."""
    sections = next(iter(world.nodes.values())).node.main_config.sections
    sections["command"] = [COMMAND]
    sections["active-response"] = [{"command": "firewall-drop", "timeout": "180", **section}]


async def respond(world: World, worker: str, **params: Any) -> Any:
    """What ``worker`` gets when it asks the master."""
    master = next(iter(world.nodes.values()))
    call = world.call("PUT /internal/responses", "admin", {"alert": ALERT, **params}, on=master)
    result = await master.router.route(structs.replace(call, node=worker, identity=node_identity()))
    assert isinstance(result, Plain)
    return result.data


def reached(links: dict[str, MemoryLink]) -> dict[str, list[int]]:
    return {name: sorted(number for number, _ in link.sent) for name, link in links.items()}


async def test_all_agents_of_other_nodes(cluster: World, links: dict[str, MemoryLink]) -> None:
    configure(cluster, location="all")
    assert await respond(cluster, "beta", command="firewall-drop180") == {"sent": 2, "failed": 0}
    assert reached(links) == {"alpha": [1], "beta": [], "gamma": [3]}
    sent = json.loads(links["alpha"].sent[0][1].removeprefix("#!-execd "))
    assert sent["parameters"] == {"extra_args": ["-x"], "alert": ALERT}
    assert links["gamma"].sent[0][1] == "#!-execd firewall-drop180 - 192.0.2.7 1.2 5712 - - -x"


async def test_the_agent_that_is_named(cluster: World, links: dict[str, MemoryLink]) -> None:
    configure(cluster, location="defined-agent", agent_id="3")
    assert await respond(cluster, "beta", command="firewall-drop180", agent=3) == {"sent": 1, "failed": 0}
    assert reached(links) == {"alpha": [], "beta": [], "gamma": [3]}


@pytest.mark.parametrize(
    ("section", "params"),
    [
        ({"location": "all"}, {"command": "restart-wazuh0"}),
        ({"location": "all"}, {"command": "!own"}),
        ({"location": "local"}, {"command": "firewall-drop180"}),
        ({"location": "defined-agent", "agent_id": "1"}, {"command": "firewall-drop180", "agent": 3}),
        ({"location": "all", "disabled": "yes"}, {"command": "firewall-drop180"}),
    ],
)
async def test_a_worker_cannot_run_anything_else(
    cluster: World,
    links: dict[str, MemoryLink],
    section: dict[str, str],
    params: dict[str, Any],
) -> None:
    configure(cluster, **section)
    with pytest.raises(SecmonError) as refused:
        await respond(cluster, "beta", **params)
    assert refused.value.code == 1652
    assert not any(reached(links).values())
