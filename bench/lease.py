"""What it costs that nodes agree on a master while nothing happens."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
from sqlalchemy import Connection

from bench.availability import database
from bench.harness import Figure
from bench.nodes import Bench, say
from secmon.cluster.leadership.leader import Leader
from secmon.cluster.leadership.lookout import LeaderSettings
from secmon.cluster.leadership.role_file import CurrentRole
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.cluster.record.readiness import Readiness, readiness
from secmon.common.background import cancel
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from tests.cluster.record.kit import Record
from tests.postgres import PostgresServer
from tests.waiting import until

NODES = (3, 20)
SECONDS = 30.0
_KEY = "0123456789abcdefghijklmnopqrstuv"


def measure(bench: Bench) -> list[Figure]:
    """Terms and looks at default settings; one process has the part in it of all nodes."""
    with database() as server:
        return [
            figure for nodes in NODES for figure in asyncio.run(_idle(server, nodes, 5.0 if bench.quick else SECONDS))
        ]


async def _idle(server: PostgresServer, nodes: int, seconds: float) -> list[Figure]:
    say(f"{nodes} nodes that agree on a master, for {seconds:g} s")
    record = RecordAddress(server.new_database())
    Record(record).close()
    async with AsyncExitStack() as stack:
        roles = [await stack.enter_async_context(_member(f"node{number}", record)) for number in range(nodes)]
        await until(lambda: any(role and role[-1].role == "master" for role in roles), "a master")
        await asyncio.sleep(5)  # the others have looked
        before = _transactions(server, record), _cpu(server), time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        after = _transactions(server, record), _cpu(server), time.process_time(), time.monotonic()
    done, of_database, of_nodes, passed = (late - early for early, late in zip(before, after, strict=True))
    return [
        Figure(name=f"idle lease of {nodes} nodes: transactions", value=done / passed, unit="/s"),
        Figure(name="  processor time of the database", value=100 * of_database / passed, unit="% core"),
        Figure(name="  processor time of a node", value=100 * of_nodes / passed / nodes, unit="% core"),
    ]


@asynccontextmanager
async def _member(name: str, record: RecordAddress) -> AsyncIterator[list[CurrentRole]]:
    """A node as the others see it; its roles."""
    roles: list[CurrentRole] = []

    async def publish(role: CurrentRole, restart: bool) -> None:
        roles.append(role)

    def become_master(term: Term) -> None:
        """Its copies are empty, as the record is."""

    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(Path(folder))

        def ready(connection: Connection) -> Readiness:
            return readiness(connection, paths, _KEY)

        leader = Leader(
            LeaderSettings(name, True, "", 1516),
            record,
            CurrentRole("worker"),
            become_master=become_master,
            publish=publish,
            ready=ready,
            clock=SystemClock(),
            counters=Counters(),
        )
        task = asyncio.create_task(leader.run())
        try:
            yield roles
        finally:
            await cancel(task)
            await leader.stop()


def _transactions(server: PostgresServer, record: RecordAddress) -> float:
    """Of all sessions with the database, those that ended included."""
    name = record.url.partition("?")[0].rpartition("/")[2]
    with server.connect() as connection:
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", (name,)
        ).fetchone()
    assert row is not None
    return float(row[0])


def _cpu(server: PostgresServer) -> float:
    """Seconds of the processes of the server, those that ended included."""
    [first, *others] = server.processes()
    own = first.cpu_times()
    ended = own.children_user + own.children_system
    return float(own.user + own.system + ended + sum(_spent(process) for process in others))


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
