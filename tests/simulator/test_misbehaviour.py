"""Each kind of misbehaviour occurs, and does not disturb the other agents."""

import pytest

from secmon.simulator import Misbehaviour
from tests.simulator.server import ScriptedServer
from tests.simulator.test_agents import MERGED, fleet
from tests.waiting import until

pytestmark = pytest.mark.anyio
BAD = "002"


def only(kind: Misbehaviour) -> dict[Misbehaviour, int]:
    return {kind: 1}


async def test_flood(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.FLOOD)) as agents:
        await agents.until(lambda c: c.events >= 2000)
        await agents.until(lambda c: c.connected == 2)


async def test_deaf(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.DEAF)) as agents:
        await until(lambda: len(server.agents[BAD].keepalives) >= 3)
        received = agents.counters.messages_in
        await until(lambda: len(server.agents["001"].keepalives) >= 6)
        assert agents.counters.messages_in - received < 10
        await agents.until(lambda c: c.losses >= 1)  # it hears no acknowledgement


async def test_half(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.HALF)) as agents:
        await until(lambda: len(server.agents[BAD].said(b"#!-agent startup")) >= 2)
        assert agents.counters.losses == 0


async def test_wrong_key(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.WRONG_KEY)) as agents:
        await until(lambda: len(server.bad) >= 2)
        await agents.until(lambda c: c.connected == 1)
        assert set(server.bad) == {"auth"}
        assert not server.agents[BAD].texts


async def test_replay(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.REPLAY)):
        await until(lambda: len(server.agents[BAD].said(b"#!-agent startup")) >= 2)


async def test_random(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.RANDOM)) as agents:
        await until(lambda: len(server.bad) >= 2)
        await agents.until(lambda c: c.losses >= 1)


async def test_corrupt(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.CORRUPT)) as agents:
        await agents.until(lambda c: c.connected == 2)
        announced = server.push("001", MERGED)
        server.push(BAD, MERGED)
        await agents.until(lambda c: c.pushes == 1 and c.pushes_bad == 1)
        await agents.until(lambda _: agents.sums[announced] == 1 and agents.sums["x"] == 1)


async def test_clock(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.CLOCK)) as agents:
        await until(lambda: agents.agents[1].offset)
        await agents.until(lambda c: c.connected == 2)


async def test_twice(server: ScriptedServer) -> None:
    async with fleet(server, "good", "bad", misbehave=only(Misbehaviour.TWICE)) as agents:
        await until(lambda: server.connections >= 3)
        await until(lambda: len(server.agents[BAD].said(b"#!-agent startup")) >= 2)
        assert agents.counters.connected == 2
