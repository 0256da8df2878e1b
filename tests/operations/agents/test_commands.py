"""Commands for agents, brought to the nodes they are connected to (cluster.md 5, agent-link.md 8 and 9)."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from secmon.cluster.coordinator import LocalPeer
from secmon.cluster.fan_out import MARGIN_SECONDS
from secmon.cluster.parameters import ParameterError, build
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.operations.all import CATALOGUE, EXECUTABLE
from tests.agents.rows import agent, put
from tests.operations.fields import MemoryLink
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer, ObservedPeer, StuckPeer, World

pytestmark = pytest.mark.anyio

RESTART, RECONNECT, RESPOND = "PUT /agents/restart", "PUT /agents/reconnect", "PUT /active-response"
RESTART_ONE, RESTART_GROUP = "PUT /agents/{agent_id}/restart", "PUT /agents/group/{group_id}/restart"
RESTART_NODE = "PUT /agents/node/{node_id}/restart"
NODES = ("alpha", "beta", "gamma")


def active(number: int, node: str, version: str | None = "Wazuh v4.8.2", **values: Any) -> dict[str, Any]:
    return agent(number, node_name=node, version=version, connection_status="active", **values)


HELD = [
    active(1, "alpha", group="default"),
    active(2, "beta", "Wazuh v4.2.3", group="default,web"),
    active(3, "gamma", "OSSEC HIDS v2.8.3", group="web"),
    agent(4, node_name="beta", connection_status="disconnected", group="web"),
    active(5, "beta", "Wazuh v3.6.0", group="WEB"),
    active(1000, "beta", group="web"),
]


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    """With the operations that nodes ask of each other."""
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


@pytest.fixture
def links(cluster: World) -> dict[str, MemoryLink]:
    """The link of each node; all nodes know all agents."""
    links = {}
    for name in NODES:
        node = cluster.nodes[name].node
        links[name] = node.services.agent_link = MemoryLink()
        with node.agents.write() as connection:
            put(connection, HELD)
        (node.paths.shared / "web").mkdir()
        (node.paths.shared / "ar.conf").write_text("restart-wazuh0 - restart - 0\nfirewall-drop180 - drop - 180\n")
    return links


@pytest.fixture
def office(cluster: World, links: dict[str, MemoryLink]) -> Office:
    return Office(cluster)


def failed(body: dict[str, Any]) -> list[tuple[int, list[str]]]:
    return [(entry["error"]["code"], entry["id"]) for entry in body["data"]["failed_items"]]


async def test_every_agent_is_asked_by_its_node(office: Office, links: dict[str, MemoryLink]) -> None:
    body = await office.ask(RESTART)
    assert body["data"]["affected_items"] == ["001", "002", "003", "005", "1000"]
    assert (body["data"]["failed_items"], body["error"]) == ([], 0)
    reported = {name: [number for number, _ in link.sent] for name, link in links.items()}
    assert reported == {"alpha": [1], "beta": [2, 5, 1000], "gamma": [3]}


async def test_restarts_in_the_dialect_of_the_agent(office: Office, links: dict[str, MemoryLink]) -> None:
    await office.ask(RESTART, agents_list=["001", "003"])
    [(_, modern)], [(_, old)] = links["alpha"].sent, links["gamma"].sent
    assert old == "#!-execd restart-ossec0 - null (from_the_server) (no_rule_id)"
    assert modern.startswith('#!-execd {"version": 1, "origin": {"module": "API"}, "command": "restart-wazuh0"')
    assert modern.endswith(" - null (from_the_server) (no_rule_id)")
    body, _ = json.JSONDecoder().raw_decode(modern.removeprefix("#!-execd "))
    assert body["parameters"] == {"extra_args": [], "alert": {}}


async def test_failures_of_named_agents(office: Office, links: dict[str, MemoryLink]) -> None:
    body = await office.ask(RESTART, agents_list=["1000", "000", "999", "0001", "004", "001"])
    assert body["data"]["affected_items"] == ["001", "1000"]
    assert failed(body) == [(1701, ["0001", "999"]), (1703, ["000"]), (1707, ["004"])]
    assert body["error"] == 2
    links["beta"].away = {1000}
    assert failed(await office.ask(RESTART, agents_list=["1000"])) == [(1707, ["1000"])]
    assert (await office.ask(RESTART, agents_list=["1000"]))["error"] == 1
    assert (await office.ask(RESTART))["data"]["failed_items"] == []


async def test_a_failing_node_fails_only_its_own_agents(office: Office, links: dict[str, MemoryLink]) -> None:
    office.world.peers["beta"] = AnsweringPeer(SecmonError(3022, ids=("beta",)))
    body = await office.ask(RESTART, agents_list=["001", "002", "003", "1000"])
    assert body["data"]["affected_items"] == ["001", "003"]
    assert failed(body) == [(3022, ["002", "1000"])]
    assert list(body["dapi_errors"]) == ["beta"]
    office.world.peers["beta"] = AnsweringPeer(SecmonError(1017, "in node 'beta' (secmon-remoted->failed)"))
    assert failed(await office.ask(RESTART, agents_list=["001", "002"])) == [(1017, ["002"])]
    with pytest.raises(SecmonError) as caught:
        await office.world.run(RESTART_ONE, agent_id="002")
    assert (caught.value.code, list(caught.value.nodes)) == (1017, ["beta"])


async def test_a_slow_node_fails_only_its_own_agents(
    office: Office, links: dict[str, MemoryLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, running = office.world.clock, office.world.nodes["alpha"]
    # The test moves the time of the event loop: a busy machine cannot delay the other node beyond the deadline.
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.monotonic)
    office.world.peers["gamma"] = stuck = StuckPeer()
    office.world.peers["beta"] = prompt = ObservedPeer(LocalPeer(office.world.nodes["beta"].executor))
    call = office.world.call(RESTART, "admin", {"agents_list": ["002", "003"]}, on=running)
    routed = asyncio.create_task(running.router.route(structs.replace(call, deadline=clock.monotonic() + 60)))
    while not (stuck.asked and prompt.answered):
        assert not routed.done()
        await asyncio.sleep(0)
    clock.advance(60 - MARGIN_SECONDS[1])
    outcome = await routed
    assert isinstance(outcome, Outcome)
    assert outcome.items == ["002"]
    assert [(failure.code, failure.ids) for failure in outcome.failures] == [(3021, ("003",))]
    assert list(outcome.node_errors) == ["gamma"]
    assert stuck.cancelled == 1


async def test_an_agent_of_a_node_that_no_longer_exists(office: Office, links: dict[str, MemoryLink]) -> None:
    with office.node.agents.write() as connection:
        put(connection, [active(7, "delta")])
    body = await office.ask(RESTART, agents_list=["007"])
    assert failed(body) == [(3022, ["007"])]


async def test_the_caller_commands_what_it_may(office: Office, links: dict[str, MemoryLink]) -> None:
    await office.caller(
        "robert", ("agent:restart", "agent:id:001", "allow"), ("agent:restart", "agent:id:004", "allow")
    )
    assert (await office.ask(RESTART, "robert"))["data"]["affected_items"] == ["001"]
    assert failed(await office.ask(RESTART, "robert", agents_list=["001", "002"])) == [(4000, ["002"])]
    assert (await office.refused(RESTART, "robert", agents_list=["002"])).code == 4000
    assert (await office.refused(RESTART_ONE, "robert", agent_id="002")).code == 4000
    assert (await office.ask(RESTART, "nobody"))["data"]["total_affected_items"] == 0


async def test_one_agent(office: Office, links: dict[str, MemoryLink]) -> None:
    assert (await office.ask(RESTART_ONE, agent_id="1000"))["data"]["affected_items"] == ["1000"]
    for one, code in (("004", 1707), ("000", 1703), ("999", 1701)):
        body = await office.ask(RESTART_ONE, agent_id=one)
        assert (failed(body), body["error"]) == ([(code, [one])], 1)


async def test_a_worker_passes_commands_to_the_master(office: Office, links: dict[str, MemoryLink]) -> None:
    body = await office.ask(RESTART, at="gamma", agents_list=["001", "003"])
    assert body["data"]["affected_items"] == ["001", "003"]


class TestGroups:
    async def test_members(self, office: Office, links: dict[str, MemoryLink]) -> None:
        body = await office.ask(RESTART_GROUP, group_id="web")
        assert body["data"]["affected_items"] == ["002", "003", "1000"]
        assert body["data"]["failed_items"] == []  # the disconnected one is not reported

    async def test_without_members(self, office: Office, links: dict[str, MemoryLink]) -> None:
        (office.node.paths.shared / "empty").mkdir()
        body = await office.ask(RESTART_GROUP, group_id="empty")
        assert (body["error"], body["data"]["total_affected_items"]) == (0, 0)

    async def test_unknown(self, office: Office, links: dict[str, MemoryLink]) -> None:
        assert (await office.refused(RESTART_GROUP, group_id="none")).code == 1710

    async def test_permissions(self, office: Office, links: dict[str, MemoryLink]) -> None:
        group = ("group:read", "group:id:*", "allow")
        read, restart = (("agent:read", "agent:id:*", "allow"), ("agent:restart", "agent:id:002", "allow"))
        await office.caller("walter", group, read, restart)
        body = await office.ask(RESTART_GROUP, "walter", group_id="web")
        assert body["data"]["affected_items"] == ["002"]
        assert failed(body) == [(4000, ["003", "004", "1000"])]
        await office.caller("wilma", group, ("agent:read", "agent:id:002", "allow"), restart)
        assert failed(await office.ask(RESTART_GROUP, "wilma", group_id="web")) == []
        await office.caller("willy", group, read)
        assert (await office.refused(RESTART_GROUP, "willy", group_id="web")).code == 4000
        assert (await office.refused(RESTART_GROUP, "nobody", group_id="web")).code == 4000


class TestNodes:
    async def test_agents_of_a_node(self, office: Office, links: dict[str, MemoryLink]) -> None:
        body = await office.ask(RESTART_NODE, node_id="beta")
        assert (body["data"]["affected_items"], body["data"]["failed_items"]) == (["002", "005", "1000"], [])

    async def test_unknown_nodes(self, office: Office, links: dict[str, MemoryLink]) -> None:
        for node in ("nowhere", "delta"):
            assert failed(await office.ask(RESTART_NODE, node_id=node)) == [(1730, [node])]

    async def test_permissions(self, office: Office, links: dict[str, MemoryLink]) -> None:
        assert (await office.refused(RESTART_NODE, "nobody", node_id="beta")).code == 4000
        await office.caller(
            "norah", ("cluster:read", "node:id:beta", "allow"), ("agent:restart", "agent:id:5", "allow")
        )
        assert (await office.refused(RESTART_NODE, "norah", node_id="beta")).code == 4000
        await office.caller(
            "norman", ("cluster:read", "node:id:beta", "allow"), ("agent:restart", "agent:id:005", "allow")
        )
        body = await office.ask(RESTART_NODE, "norman", node_id="beta")
        assert (body["data"]["affected_items"], failed(body)) == (["005"], [(4000, ["002", "004", "1000"])])
        assert (await office.refused(RESTART_NODE, "norman", node_id="gamma")).code == 4000

    async def test_without_a_cluster(self) -> None:
        operation = CATALOGUE.get(RESTART_NODE)
        assert operation is not None
        assert operation.needs_cluster


async def test_agents_of_any_version_reconnect(office: Office, links: dict[str, MemoryLink]) -> None:
    body = await office.ask(RECONNECT, agents_list=["001", "002", "1000"])
    assert (body["data"]["affected_items"], failed(body)) == (["001", "002", "1000"], [])
    assert links["beta"].sent == [(2, "#!-force_reconnect"), (1000, "#!-force_reconnect")]


class TestActiveResponses:
    async def test_json(self, office: Office, links: dict[str, MemoryLink]) -> None:
        body = {"command": "firewall-drop180", "arguments": ["-x", "3"], "alert": {"data": {"srcip": "192.0.2.7"}}}
        answer = await office.ask(RESPOND, agents_list=["001"], body=body)
        assert answer["data"]["affected_items"] == ["001"]
        [(number, text)] = links["alpha"].sent
        assert number == 1
        assert "\n" not in text
        assert json.loads(text.removeprefix("#!-execd ")) == {
            "version": 1,
            "origin": {"name": "alpha", "module": "API"},
            "command": "firewall-drop180",
            "parameters": {"extra_args": ["-x", "3"], "alert": {"data": {"srcip": "192.0.2.7"}}},
        }
        assert links["alpha"].asked == [(1, "com", b"getconfig active-response")]

    async def test_agents_that_trust_a_shell(self, office: Office, links: dict[str, MemoryLink]) -> None:
        await office.ask(RESPOND, agents_list=["002"], body={"command": "!own", "arguments": ["a'b$(c)`d`!"]})
        [(_, text)] = links["beta"].sent
        assert r'["a\\x27b\\x24(c)\\x60d\\x60\\x21"]' in text
        assert '"command":"!own"' in text

    async def test_texts(self, office: Office, links: dict[str, MemoryLink]) -> None:
        await office.ask(RESPOND, agents_list=["003"], body={"command": "!own.sh"})
        await office.ask(RESPOND, agents_list=["003"], body={"command": "!own.sh", "arguments": ["a b", "c;d", "\t"]})
        assert [text for _, text in links["gamma"].sent] == [
            "#!-execd !own.sh - -",
            "#!-execd !own.sh a b c\\;d \\\t",
        ]
        assert links["gamma"].asked == []  # too old to be asked
        long = await office.ask(RESPOND, agents_list=["003"], body={"command": "!own.sh", "arguments": ["x" * 1020]})
        assert failed(long) == [(1731, ["003"])]
        assert links["gamma"].sent[2:] == []

    async def test_longer_than_a_message(self, office: Office, links: dict[str, MemoryLink]) -> None:
        long = await office.ask(RESPOND, agents_list=["001"], body={"command": "!own", "arguments": ["x" * 65408]})
        assert failed(long) == [(1731, ["001"])]
        assert "65408" in long["data"]["failed_items"][0]["error"]["message"]
        assert links["alpha"].sent == []

    async def test_unknown_commands(self, office: Office, links: dict[str, MemoryLink]) -> None:
        answer = await office.ask(RESPOND, agents_list=["001", "002"], body={"command": "firewall-drop"})
        assert failed(answer) == [(1652, ["001", "002"])]
        (office.world.nodes["beta"].node.paths.shared / "ar.conf").unlink()
        answer = await office.ask(RESPOND, agents_list=["001", "002"], body={"command": "firewall-drop180"})
        assert (answer["data"]["affected_items"], failed(answer)) == (["001"], [(1652, ["002"])])

    async def test_disabled_or_silent(self, office: Office, links: dict[str, MemoryLink]) -> None:
        ask = (2, "com", b"getconfig active-response")
        links["beta"].answers[ask] = b'ok  {"active-response":{"disabled":"yes"}}'
        links["beta"].silent = {1000}
        running = office.world.nodes["alpha"]
        params = {"agents_list": ["001", "002", "1000"], "body": {"command": "!x"}}
        call = office.world.call(RESPOND, "admin", params, on=running)
        call = structs.replace(call, deadline=office.world.clock.monotonic() + 1.0)
        outcome = await running.router.route(call)
        assert isinstance(outcome, Outcome)
        assert outcome.items == ["001"]
        assert sorted((one.code, one.ids) for one in outcome.failures) == [(1117, ("1000",)), (1750, ("002",))]

    async def test_unnamed_agents(self, office: Office, links: dict[str, MemoryLink]) -> None:
        answer = await office.ask(RESPOND, body={"command": "!x"})
        assert answer["data"]["affected_items"] == ["001", "002", "003", "005", "1000"]
        assert failed(answer) == [(1707, ["004"])]  # 1701 and 1703 only are hidden

    @pytest.mark.parametrize(
        "body",
        [{}, {"command": ""}, {"command": "!"}, {"command": "../x"}, {"command": "a b"}, {"command": "x", "y": 1}],
    )
    async def test_refused_bodies(self, body: dict[str, Any]) -> None:
        operation = CATALOGUE.get(RESPOND)
        assert operation is not None
        with pytest.raises(ParameterError):
            build(operation.params, {"body": body})


async def test_without_a_link(office: Office, links: dict[str, MemoryLink]) -> None:
    office.world.nodes["beta"].node.services.agent_link = None
    body = await office.ask(RESTART, agents_list=["001", "002"])
    assert (body["data"]["affected_items"], failed(body)) == (["001"], [(1014, ["002"])])
    assert list(body["dapi_errors"]) == ["beta"]
