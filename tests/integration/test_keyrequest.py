"""Keys of refused agents on a worker: its program is asked, the master registers, the worker lets the agent in."""

import asyncio
import json
import stat

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.agents.wire.keys import AgentKey
from secmon.config.remote import load_remote
from tests.agentlink.field import ACK, STARTUP, FieldAgent
from tests.integration.kit import RealNode, cluster
from tests.waiting import wait_until

KEY = "0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
AGENT = AgentKey("007", "web-07", "any", KEY)


def configure(node: RealNode) -> None:
    answer = {"error": 0, "data": {"id": AGENT.id, "name": AGENT.name, "ip": "any", "key": KEY}}
    path = node.paths.root / "keys"
    path.write_text(f"#!/bin/sh\ntest \"$1 $2\" = 'id 007' && echo '{json.dumps(answer)}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    text = node.paths.main_config.read_text()
    section = "<key_request><exec_path>keys</exec_path></key_request></auth>"
    node.paths.main_config.write_text(text.replace("</auth>", section, 1))


async def comes_in(port: int) -> bool:
    """Whether the agent is acknowledged; it is closed out otherwise."""
    agent = await FieldAgent(AGENT).connect(port)
    try:
        await agent.send(STARTUP)
        return await agent.receive() == ACK
    except (EOFError, ConnectionError):
        return False
    finally:
        agent.close()


def test_a_worker_has_the_master_register() -> None:
    with cluster(1, single_process=True) as made:
        (worker,) = made.workers
        worker.stop()
        configure(worker)
        worker.start()
        made.wait_whole()
        port = load_remote(worker.paths)[0].port
        wait_until(lambda: asyncio.run(comes_in(port)))
        store = AgentStore(made.master.paths.agents_db)
        with store.read() as connection:
            assert [one.line for one in entries(connection)] == [f"007 web-07 any {KEY}"]
        store.close()
        for node in (made.master, worker):
            for file in (node.paths.root / "logs").rglob("*"):
                assert not file.is_file() or KEY.encode() not in file.read_bytes()
