"""Counters: their shapes, and what moves them."""

from pathlib import Path
from typing import Any

import pytest

from secmon.agents.registry.registry import remove
from tests.agentlink.field import SHUTDOWN, field
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_the_whole_link(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await (await here.agent()).start()
        await agent.beat()
        await agent.send(b"1:f:x", b"#!-req 1 late")
        assert await agent.ping() == b"#pong"
        await here.server.service.send(
            [(1, "#!-execd x"), (1, "#!-sca-dump:a:1"), (1, "#!-syscheck dbsync no_data {}")]
        )
        await agent.send(SHUTDOWN)
        await here.events(2)
        clock.advance(30)
        now = int(clock.now().timestamp())
        shown: dict[str, Any] = {**await here.server.service.statistics()}
        counted = shown["metrics"].pop("bytes")
        assert counted["received"] > 400
        assert counted["sent"] > 400
        assert shown == {
            "uptime": now - 30,
            "timestamp": now,
            "name": "secmon-remoted",
            "metrics": {
                "keys_reload_count": here.server.counts.reloads,
                "tcp_sessions": 1,
                "messages": {
                    "received_breakdown": {
                        "control": 4,
                        "control_breakdown": {"keepalive": 1, "request": 1, "shutdown": 1, "startup": 1},
                        "dequeued_after": 0,
                        "discarded": 0,
                        "event": 1,
                        "ping": 1,
                        "unknown": 0,
                    },
                    "sent_breakdown": {"ack": 2, "ar": 2, "discarded": 0, "request": 0, "sca": 1, "shared": 0},
                },
                "queues": {"received": {"size": 131072, "usage": 0}},
            },
        }
        assert here.server.counters()["link"]["journal"]["events"] == 2


async def test_each_agent(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await (await here.agent()).start()
        await here.enrol("silent")
        now = int(clock.now().timestamp())
        clock.advance(3)
        assert await here.server.service.statistics([1, 2, 7, 1]) == {
            "timestamp": now + 3,
            "name": "secmon-remoted",
            "agents": [
                {
                    "uptime": now,
                    "id": 1,
                    "metrics": {
                        "messages": {
                            "received_breakdown": {
                                "control": 1,
                                "control_breakdown": {"keepalive": 0, "request": 0, "shutdown": 0, "startup": 1},
                                "event": 0,
                            },
                            "sent_breakdown": {
                                "ack": 1,
                                "ar": 0,
                                "discarded": 0,
                                "request": 0,
                                "sca": 0,
                                "shared": 0,
                            },
                        }
                    },
                }
            ],
        }
        await agent.beat()


async def test_counters_go_with_their_agents(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock, counts_sweep_seconds=0.01) as here:
        first = await (await here.agent()).start()
        second = await (await here.agent(await here.enrol("second"))).start()
        third = await (await here.agent(await here.enrol("third"))).start()
        await second.send(SHUTDOWN)
        await until(lambda: here.server.agents.by_number[2].session.counts is None)
        assert [one["id"] for one in (await here.server.service.statistics([1, 2, 3]))["agents"]] == [1, 3]
        with here.store.write() as connection:
            remove(connection, [3])
        assert await third.closed_by_server()
        assert [one["id"] for one in (await here.server.service.statistics([1, 2, 3]))["agents"]] == [1]
        clock.advance(601)
        await until(lambda: here.server.agents.by_number[1].session.counts is None)
        await first.beat()
        assert [one["id"] for one in (await here.server.service.statistics([1]))["agents"]] == [1]
