"""A flapping link with agents and events: reset connections and black holes in turn."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.ipc.commands import command
from secmon.daemons.control_sockets import daemon_socket
from secmon.simulator import Fleet, Options, Timing
from tests.daemons.inprocess import install_master, install_worker, ports_of, short_folder
from tests.integration.kit import RealNode
from tests.simulator.background import server_of
from tests.slowlink import SlowLink
from tests.waiting import until

pytestmark = pytest.mark.anyio
DAEMONS = ("secmon-apid", "secmon-authd", "secmon-analysisd", "secmon-remoted", "secmon-modulesd", "secmon-clusterd")
TIMING = Timing(notify=0.5, silence=60.0, after_enrolment=1.0, enrolment_retry=0.5, restart=0.2)
AGENTS = 10
FLAPS = 10


def states(store: AgentStore) -> Counter[tuple[str, str]]:
    """Status and node of the agents, as the master knows them."""
    with store.read() as connection:
        found = connection.execute(select(agents.c.connection_status, agents.c.node_name)).all()
    return Counter((row[0], row[1]) for row in found)


def pids(node: RealNode) -> dict[str, int | None]:
    return {name: node.pid(name) for name in DAEMONS}


async def restarts(node: RealNode) -> int:
    """Of long-lived tasks, in all daemons."""
    answers = [await command(daemon_socket(node.paths, name), "counters") for name in DAEMONS]
    return sum(sum(one["task_restarts"].values()) for one in answers)


async def test_daemons_and_states_survive_a_flapping_link() -> None:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(short_folder())
        master = install_master(folder)
        links = {name: await SlowLink(port).start() for name, port in ports_of(master).items()}
        for link in links.values():
            stack.push_async_callback(link.stop)
        worker = install_worker(folder, **{name: link.port for name, link in links.items()})
        for node in (master, worker):
            stack.push_async_callback(asyncio.to_thread, node.stop)
            await asyncio.to_thread(node.start, wait=False)
        for node in (master, worker):
            await until(lambda node=node: node.answers())  # type: ignore[misc]
        store = AgentStore(master.paths.agents_db)
        stack.callback(store.close)
        fleet = Fleet([server_of(worker)], AGENTS, options=Options(timing=TIMING, events_per_second=5.0))
        stack.push_async_callback(fleet.stop)
        await fleet.start()
        await until(lambda: states(store) == {("active", "worker"): AGENTS}, what="agents are known")
        before = pids(worker)
        for number in range(FLAPS):
            joined = _sessions(worker)
            link = links["port"]
            (link.freeze if number % 2 else link.cut)()
            await until(lambda joined=joined: _ends(worker) >= joined, what="the session ended")  # type: ignore[misc]
            fleet.agents[number].stop(send_shutdown=True)  # the master is to know it in the end
            (link.thaw if number % 2 else link.mend)()
            await until(lambda joined=joined: _sessions(worker) > joined, what="the worker is back")  # type: ignore[misc]
            expected = Counter({("disconnected", "worker"): number + 1, ("active", "worker"): AGENTS - number - 1})
            await until(lambda expected=expected: states(store) == +expected, what=f"states after {number + 1} flaps")  # type: ignore[misc]
        assert pids(worker) == before
        assert await restarts(worker) == 0
        assert fleet.counters.losses == 0
        link_counters = await command(daemon_socket(worker.paths, "secmon-remoted"), "counters")
        assert link_counters["link"]["journal"]["events"] >= fleet.counters.events > 0


def _log(node: RealNode) -> str:
    return (node.paths.logs / "cluster.log").read_text()


def _sessions(node: RealNode) -> int:
    return _log(node).count("joined cluster")


def _ends(node: RealNode) -> int:
    return _log(node).count("the session with the master ended")
