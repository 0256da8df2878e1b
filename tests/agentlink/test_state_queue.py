"""States of agents while their store cannot be written."""

import asyncio
import logging
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from secmon.agentlink.state_queue import StateQueue
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.state_updates import Origin, UnchangedKeepalive
from tests.filelimit import file_size_limit

pytestmark = pytest.mark.anyio

AGENT = {"id": 1, "name": "a1", "register_ip": "any", "internal_key": "k", "date_add": 1, "revision": 1}


async def test_a_full_disk_is_logged_once_and_costs_no_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "secmon.agentlink")
    store = AgentStore(tmp_path / "agents.db", durable=False)
    with store.write() as connection:
        connection.execute(insert(agents), AGENT)
    queue = StateQueue(store, Origin("worker1", "host-1"))
    queue.add(UnchangedKeepalive(1, 50))
    with file_size_limit(10):
        for _ in range(3):
            await queue.flush()
    await queue.flush()
    with store.read() as connection:
        assert connection.execute(select(agents.c.last_keepalive)).scalar_one() == 50
    store.close()
    assert [one.levelname for one in caplog.records] == ["ERROR", "INFO"]
    assert "States of agents cannot be written, and are kept: " in caplog.messages[0]


async def test_a_flush_waits_for_the_write_before_it(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    with store.write() as connection:
        connection.execute(insert(agents), AGENT)
    queue = StateQueue(store, Origin("worker1", "host-1"))
    queue.add(UnchangedKeepalive(1, 50))
    with store.write():
        flushes = [asyncio.create_task(queue.flush()) for _ in range(2)]
        done, _ = await asyncio.wait(flushes, timeout=0.2)
        assert not done, "the second has nothing to write, and nothing is written yet"
    await asyncio.gather(*flushes)
    with store.read() as connection:
        assert connection.execute(select(agents.c.last_keepalive)).scalar_one() == 50
    store.close()
