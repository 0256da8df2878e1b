"""Agents get keys, keep them, and ask again."""

from dataclasses import replace
from pathlib import Path

import pytest

from secmon.agents.wire.keys import enrolment_hash
from secmon.simulator import Fleet, Misbehaviour, Options
from secmon.simulator.enrolment import Request
from tests.simulator.server import ScriptedServer
from tests.simulator.test_agents import MERGED, QUICK

pytestmark = pytest.mark.anyio


def test_request_in_the_fixed_order() -> None:
    request = Request(
        name="web-01", password="pass word", version="v4.8.2", groups="default,linux", address="src", key_hash="ab"
    )
    assert request.encode() == (
        b"OSSEC PASS: pass word OSSEC A:'web-01' V:'v4.8.2' G:'default,linux' IP:'src' K:'ab'\n"
    )
    assert Request(name="web-01").encode() == b"OSSEC A:'web-01'\n"


async def test_enrol_and_connect(server: ScriptedServer) -> None:
    options = Options(timing=QUICK, groups=("linux",), password="secret", versions=("v4.8.2", "v4.1.5"))
    async with Fleet([server.server()], 4, options=options, prefix="lab") as fleet:
        await fleet.until(lambda c: c.enrolled == 4 and c.connected == 4)
        assert [key.name for key in fleet.held_keys] == ["lab-00001", "lab-00002", "lab-00003", "lab-00004"]
    assert "OSSEC PASS: secret OSSEC A:'lab-00001' V:'v4.8.2' G:'linux'\n" in server.requests
    assert "OSSEC PASS: secret OSSEC A:'lab-00002' G:'linux'\n" in server.requests


async def test_same_fleet_again(server: ScriptedServer, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    options = Options(timing=QUICK)
    async with Fleet([server.server()], 2, options=options, keys=folder) as fleet:
        await fleet.until(lambda c: c.connected == 2)
        announced = server.push("001", MERGED)
        await fleet.until(lambda c: c.pushes == 1 and c.connected == 2 and fleet.sums[announced] == 1)
        keys = fleet.held_keys
    assert (folder / "client.keys").stat().st_mode & 0o777 == 0o600
    async with Fleet([server.server()], 3, options=options, keys=folder) as fleet:
        await fleet.until(lambda c: c.connected == 3 and c.keepalives >= 3)
        assert fleet.held_keys[:2] == keys
        assert fleet.counters.enrolled == 1
        assert fleet.sums[announced] == 1
        assert [agent.merged_sum for agent in fleet.agents] == [announced, "", ""]


async def test_refused_enrolments_are_reported_and_repeated(server: ScriptedServer) -> None:
    server.reply = "ERROR: Duplicate agent name: agent-00001ERROR: Unable to add agent"
    async with Fleet([server.server()], 1, options=Options(timing=QUICK)) as fleet:
        await fleet.until(lambda c: c.enrolments_refused == 2)
        assert list(fleet.refusals) == [server.reply]
        server.reply = ""
        await fleet.until(lambda c: c.connected == 1)


async def test_server_that_cannot_be_reached(server: ScriptedServer) -> None:
    nowhere = replace(server.server(), enrolment_port=server.udp_port)
    async with Fleet([nowhere], 1, options=Options(timing=QUICK)) as fleet:
        await fleet.until(lambda c: c.enrolments_failed == 2)


async def test_a_known_agent_sends_the_hash_of_its_key(server: ScriptedServer) -> None:
    """Refused connections make it ask for a key at the same server (agent-link.md 1.11)."""
    [key] = server.add("web-01")
    server.refuses_startup = True
    async with Fleet([server.server()], [key], options=Options(timing=QUICK)) as fleet:
        await fleet.until(lambda c: c.enrolled == 1)
        server.refuses_startup = False
        await fleet.until(lambda c: c.connected == 1)
        assert fleet.held_keys != [key]
    assert server.requests[0] == f"OSSEC A:'web-01' V:'v4.8.2' K:'{enrolment_hash(key)}'\n"


async def test_more_misbehaving_agents_than_agents(server: ScriptedServer) -> None:
    fleet = Fleet([server.server()], 1, options=Options(misbehave={Misbehaviour.DEAF: 2}))
    with pytest.raises(ValueError, match="2 agents cannot misbehave"):
        await fleet.start()
