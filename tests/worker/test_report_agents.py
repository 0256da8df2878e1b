"""Reports of agents over a real link, which may break, without loss."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from sqlalchemy import insert, select, update

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore, advance
from secmon.agents.state_reports import BATCH
from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.master.report_service import NOTICEABLE_SECONDS, ReportService
from secmon.worker import report_agents
from secmon.worker.report_agents import AgentReporter
from tests.cluster_kit import ClusterKit, ShiftedClock
from tests.waiting import until

pytestmark = pytest.mark.anyio
MANY = BATCH + 200


def fill(store: AgentStore) -> None:
    rows = [
        {"id": one, "name": f"a{one}", "register_ip": "any", "internal_key": "k", "date_add": 1, "revision": 1}
        for one in range(1, MANY + 1)
    ]
    with store.write() as connection:
        connection.execute(insert(agents), rows)


def keepalive(store: AgentStore, moment: int, *ids: int) -> None:
    with store.write() as connection:
        changed = advance(connection, "sequence")
        values = {"last_keepalive": moment, "connection_status": "active", "node_name": "alpha", "changed": changed}
        connection.execute(update(agents).where(agents.c.id.in_(ids)).values(values))


def states(store: AgentStore) -> dict[int, tuple[str, str, int | None]]:
    with store.read() as connection:
        rows = connection.execute(
            select(agents.c.id, agents.c.node_name, agents.c.connection_status, agents.c.last_keepalive)
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows}


class Pair:
    """A master and a worker with their stores; the reporter runs."""

    def __init__(self, kit: ClusterKit, root: Path) -> None:
        self.kit = kit
        self.master, self.worker = AgentStore(root / "m.db"), AgentStore(root / "w.db")
        for store in (self.master, self.worker):
            fill(store)
        self.counters = Counters()
        self.calls = 0

    def authorize(self, context: aio.ServicerContext[Any, Any]) -> Any:
        self.calls += 1
        return self.kit.master.sessions.caller(context)

    def service(self) -> Callable[[aio.Server], None]:
        def add(server: aio.Server) -> None:
            made = ReportService(
                self.master,
                authorize=self.authorize,
                health=self.kit.master.health,
                clock=SystemClock(),
                counters=self.counters,
                max_skew_seconds=60,
            )
            pb_grpc.add_ReportsServicer_to_server(made, server)

        return add


@asynccontextmanager
async def pair(root: Path, clock: Clock | None = None) -> AsyncIterator[Pair]:
    """``clock`` is the worker's."""
    kit = ClusterKit(root)
    made = Pair(kit, root)
    running: asyncio.Task[None] | None = None
    try:
        await kit.start_master(services=[made.service()])
        worker = await kit.start_worker("alpha", clock=clock)
        reporter = AgentReporter(made.worker, worker.link, node="alpha", counters=made.counters, pause_seconds=0.02)
        running = asyncio.create_task(reporter.run())
        await kit.joined("alpha")
        yield made
    finally:
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await kit.stop()
        made.master.close()
        made.worker.close()


async def test_every_state_is_reported_and_then_keepalives_alone(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        everyone = range(1, MANY + 1)
        keepalive(nodes.worker, 100, *everyone)
        await until(lambda: states(nodes.master) == dict.fromkeys(everyone, ("alpha", "active", 100)))
        keepalive(nodes.worker, 110, 5)
        await until(lambda: states(nodes.master)[5] == ("alpha", "active", 110))

        def chunks() -> int:
            health = {item["info"]["name"]: item for item in nodes.kit.master.health.health()}
            return int(health["alpha"]["status"]["last_sync_agentinfo"]["n_synced_chunks"])

        await until(lambda: chunks() >= 3)  # counted after the states are written


async def test_many_states_are_reported_in_small_messages(tmp_path: Path) -> None:
    label = '[["place","' + "x" * 1000 + '"]]'
    async with pair(tmp_path) as nodes:
        everyone = range(1, MANY + 1)
        with nodes.worker.write() as connection:
            connection.execute(update(agents).values(labels=label))
        keepalive(nodes.worker, 100, *everyone)
        await until(lambda: states(nodes.master) == dict.fromkeys(everyone, ("alpha", "active", 100)))
        assert nodes.calls >= MANY * len(label) / PIECE_BYTES


async def test_the_master_requests_whole_states_where_keepalives_do_not_suffice(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        keepalive(nodes.worker, 100, 1)
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 100))
        with nodes.master.write() as connection:  # the master heard nothing for too long
            connection.execute(update(agents).where(agents.c.id == 1).values(connection_status="disconnected"))
        keepalive(nodes.worker, 110, 1)
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 110))


async def test_a_report_is_repeated_after_the_end_of_its_session(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        with nodes.master.write():  # the report cannot be written: it is under way
            keepalive(nodes.worker, 100, 1)
            await until(lambda: nodes.calls == 1)
            session = nodes.kit.master.sessions.get("alpha")
            assert session is not None
            session.close("for the test")
            await until(lambda: nodes.kit.master.sessions.get("alpha") not in (None, session))
        keepalive(nodes.worker, 110, 1)
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 110))


async def test_reports_wait_for_an_absent_master(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        keepalive(nodes.worker, 100, 1)
        await until(lambda: states(nodes.master)[1][2] == 100)
        port, enrol_port = nodes.kit.master.port, nodes.kit.master.enrol_port
        await nodes.kit.master.stop(grace=0)
        keepalive(nodes.worker, 120, 1, 2)
        await until(lambda: not nodes.kit.workers[0].link.connected.is_set())
        assert states(nodes.master)[2][2] is None
        nodes.kit.masters.clear()
        await nodes.kit.start_master(services=[nodes.service()], listen_port=port, enrol_port=enrol_port)
        await until(lambda: [states(nodes.master)[one][2] for one in (1, 2)] == [120, 120])


async def test_an_invalid_row_is_refused_and_the_others_are_stored(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        with nodes.worker.write() as connection:
            connection.execute(update(agents).where(agents.c.id == 1).values(labels="nonsense"))
        keepalive(nodes.worker, 100, 1, 2)
        await until(lambda: states(nodes.master)[2] == ("alpha", "active", 100))
        assert states(nodes.master)[1] == ("unknown", "never_connected", None)
        await until(lambda: nodes.counters.snapshot().get("agents.reports_refused", 0) >= 2)  # at both ends
        with nodes.worker.write() as connection:
            connection.execute(update(agents).where(agents.c.id == 1).values(labels="[]"))
        keepalive(nodes.worker, 110, 1)
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 110))


@pytest.mark.parametrize("seconds", [-40, 40])
async def test_times_of_a_worker_with_another_clock_are_those_of_the_master(tmp_path: Path, seconds: int) -> None:
    clock = ShiftedClock(timedelta(seconds=seconds))
    async with pair(tmp_path, clock) as nodes:
        heard = int(clock.now().timestamp())
        keepalive(nodes.worker, heard, 1)
        await until(lambda: states(nodes.master)[1][2] is not None)
        stored = states(nodes.master)[1][2]
        assert stored is not None
        # As exact as the heartbeats by which the clocks are compared.
        assert abs(stored - (heard - seconds)) < NOTICEABLE_SECONDS
        keepalive(nodes.worker, heard + 7, 1)
        await until(lambda: states(nodes.master)[1][2] != stored)
        assert abs((states(nodes.master)[1][2] or 0) - (heard + 7 - seconds)) < NOTICEABLE_SECONDS


async def test_a_store_that_fails_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(report_agents, "RETRY_SECONDS", 0.0)
    caplog.set_level("INFO", "secmon.clusterd.agents")
    async with pair(tmp_path) as nodes:
        with nodes.worker.write() as connection:
            connection.exec_driver_sql("ALTER TABLE agents RENAME TO aside")
        await until(lambda: nodes.counters.snapshot().get("agents.report_failures", 0) >= 3)
        with nodes.worker.write() as connection:
            connection.exec_driver_sql("ALTER TABLE aside RENAME TO agents")
        keepalive(nodes.worker, 100, 1)
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 100))
        await until(lambda: len(caplog.records) > 1)
    logged = [one.getMessage() for one in caplog.records if one.name == "secmon.clusterd.agents"]
    assert len(logged) == 2
    assert "no such table" in logged[0]
    assert logged[1] == "agents are reported to the master again"


async def test_a_store_of_the_master_that_fails_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker keeps its reports; the master's log, which may be on the disk that is full, does not grow by them."""
    monkeypatch.setattr(report_agents, "RETRY_SECONDS", 0.0)
    caplog.set_level("INFO")
    async with pair(tmp_path) as nodes:
        with nodes.master.write() as connection:
            connection.exec_driver_sql("ALTER TABLE agents RENAME TO aside")
        keepalive(nodes.worker, 100, 1)
        await until(lambda: nodes.counters.snapshot().get("agents.report_failures", 0) >= 3)
        with nodes.master.write() as connection:
            connection.exec_driver_sql("ALTER TABLE aside RENAME TO agents")
        await until(lambda: states(nodes.master)[1] == ("alpha", "active", 100))
        await until(lambda: "agent reports of workers are stored again" in caplog.text)
    assert caplog.text.count("agent reports of workers cannot be stored: no such table") == 1
    assert "Traceback" not in caplog.text
