"""Every long-lived task of every daemon ends in every way, with agents connected."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.background import Background, Work
from secmon.common.ipc.commands import command
from secmon.daemons.control_sockets import daemon_socket
from secmon.daemons.supervisor_settings import read_supervisor_settings
from secmon.simulator import Fleet, Options, Timing
from tests.daemons.inprocess import daemon, install_master, install_worker, ports_of, short_folder
from tests.integration.kit import RealNode
from tests.simulator.background import server_of
from tests.waiting import until

pytestmark = pytest.mark.anyio
WAYS = ("exception", "cancellation", "return")
REASONS = ("LookupError: injected", "it was cancelled from inside", "it returned")
TIMING = Timing(notify=0.5, silence=30.0, after_enrolment=1.0, enrolment_retry=0.5, restart=0.2)


class Faults:
    """Ends the long-lived tasks that are started meanwhile. ``open``: by the tasks of a daemon and name."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open: dict[tuple[Background, str], asyncio.Future[str]] = {}
        for kind in ("keep", "vital"):
            start = getattr(Background, kind)

            def wrapped(tasks: Background, name: str, work: Work, start: Any = start) -> None:
                start(tasks, name, lambda: self._run(tasks, name, work))

            patch.setattr(Background, kind, wrapped)

    def end(self, tasks: Background, name: str, way: str) -> None:
        self.open[tasks, name].set_result(way)

    async def _run(self, tasks: Background, name: str, work: Work) -> None:
        fault: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.open[tasks, name] = fault
        inner = asyncio.ensure_future(work())
        waits: set[asyncio.Future[Any]] = {inner, fault}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            inner.cancel()
            await asyncio.gather(inner, return_exceptions=True)
        if not fault.done():
            return inner.result()
        match fault.result():
            case "exception":
                raise LookupError("injected")
            case "cancellation":
                fault = asyncio.get_running_loop().create_future()
                fault.cancel()
                await fault
        return None


@pytest.fixture
def nodes() -> Iterator[tuple[RealNode, RealNode]]:
    """A master and a worker, installed."""
    with short_folder() as folder:
        master = install_master(folder)
        yield master, install_worker(folder, **ports_of(master))


def active(store: AgentStore) -> int:
    with store.read() as connection:
        found = connection.execute(select(agents.c.connection_status, agents.c.node_name)).all()
    return found.count(("active", "worker"))


async def test_long_lived_tasks_are_restarted(
    nodes: tuple[RealNode, RealNode], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    master, worker = nodes
    faults = Faults(monkeypatch)
    store = AgentStore(master.paths.agents_db)
    fleet = Fleet([server_of(worker)], 3, options=Options(timing=TIMING))
    async with AsyncExitStack() as stack:
        for node in (master, worker):
            for spec in read_supervisor_settings(node.paths).daemons:
                await stack.enter_async_context(daemon(node, spec.name))
        await fleet.start()
        stack.push_async_callback(fleet.stop)
        await until(lambda: active(store) == 3, what="agents active")
        kept = [(tasks, name) for tasks, name in faults.open if name in tasks.restarts]
        assert len(kept) > 40
        for count, way in enumerate(WAYS, start=1):
            for tasks, name in kept:
                faults.end(tasks, name, way)
            await until(
                lambda count=count: all(tasks.restarts[name] == count for tasks, name in kept),  # type: ignore[misc]
                what="all ended",
            )
            await until(lambda: not any(faults.open[one].done() for one in kept), what="all restarted")
        for reason in REASONS:
            for _, name in kept:
                assert f"The task {name} ended: {reason}" in caplog.text
        reported = await command(daemon_socket(worker.paths, "secmon-clusterd"), "counters")
        assert reported["task_restarts"]["reporter of agents"] == len(WAYS)
        # All of it works: an agent enrols at the worker, is judged there, and its state reaches the master.
        late = Fleet([server_of(worker)], 1, prefix="late", options=Options(timing=TIMING))
        await late.start()
        stack.push_async_callback(late.stop)
        await until(lambda: active(store) == 4, what="the new agent active")
        assert fleet.counters.losses == 0
    store.close()


@pytest.mark.parametrize(
    ("name", "task"),
    [("secmon-remoted", "states"), ("secmon-remoted", "events"), ("secmon-analysisd", "local events")],
)
async def test_the_end_of_a_vital_task_takes_its_daemon_down_in_order(
    nodes: tuple[RealNode, RealNode], monkeypatch: pytest.MonkeyPatch, name: str, task: str
) -> None:
    faults = Faults(monkeypatch)
    for way, reason in zip(WAYS, REASONS, strict=True):
        async with daemon(nodes[0], name) as frame:
            ended = asyncio.create_task(frame.ended())
            tasks = frame.daemon.tasks
            await until(lambda tasks=tasks: (tasks, task) in faults.open)  # type: ignore[misc]
            faults.end(tasks, task, way)
            assert await ended == f"TaskEnded: {task}: {reason}"
