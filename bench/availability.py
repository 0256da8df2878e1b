"""What a store of record costs, and how long a cluster is without a master."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from sqlalchemy import Connection

from bench.harness import Aim, Figure, median_figure
from bench.nodes import Bench, say
from secmon.agents.registry import registry
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.cluster.record.engine import RecordAddress
from secmon.cluster.record.writes import advance, prove_term, put_rows
from secmon.common.sqlite.row_capture import ChangedRow
from tests.cluster.record.kit import FIRST, Record, recorded_node
from tests.faults.clients import Clients
from tests.faults.history import History, Outcome
from tests.faults.objects import QUICK_KINDS
from tests.integration.ha_kit import HaCluster, ha_cluster, secmon
from tests.integration.kit import RealNode
from tests.postgres import PostgresServer, running_server

CHANGES = 300
_TERM_SECONDS = 10


def measure(bench: Bench) -> list[Figure]:
    """Changes first, in this process; then a cluster of three nodes that loses its master."""
    with database() as server:
        return [*_changes(server, rounds=2 if bench.quick else 7), *_without_master(server, 1 if bench.quick else 5)]


@contextmanager
def database() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="bp-"))
    folder.chmod(0o755)
    try:
        with running_server(folder / "s") as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _changes(server: PostgresServer, rounds: int) -> Iterator[Figure]:
    """Agents added one by one, each durable: on the disk alone, recorded, and recorded in two places."""
    say(f"{CHANGES} agents added to SQLite alone, and with a store of record")
    with _folder() as folder:
        alone = AgentStore(folder / "alone.db")
        rates = [_rate(lambda one, turn=turn: _add(alone, f"a{turn}-{one}")) for turn in range(rounds)]  # type: ignore[misc]
        alone.close()
    yield median_figure("changes on SQLite alone", rates, "changes/s")
    yield _recorded(server, rounds, "changes with a store of record")
    with _synchronous_standby(server):
        yield _recorded(server, rounds, "changes with a synchronous standby")


def _recorded(server: PostgresServer, rounds: int, name: str) -> Figure:
    """Beside the bare transactions of the record, in turns."""
    record = Record(RecordAddress(server.new_database()))
    rates: dict[str, list[float]] = {"recorded": [], "bare": []}
    with _folder() as folder, recorded_node(folder / "one", record) as node:
        for number in range(rounds):
            rates["recorded"].append(_rate(lambda one, turn=number: _add(node.agents, f"r{turn}-{one}")))  # type: ignore[misc]
            rates["bare"].append(_rate(_BareChange(record)))
    record.close()
    floor = sorted(rates["bare"])[len(rates["bare"]) // 2]
    floor_is = "the same rows in a bare transaction of PostgreSQL"
    return median_figure(name, rates["recorded"], "changes/s", floor=floor, floor_is=floor_is)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bs-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _synchronous_standby(primary: PostgresServer) -> Iterator[None]:
    """Each commit waits for a standby on this host."""
    standby = PostgresServer(primary.folder.parent / "standby", primary=primary)
    try:
        _set_synchronous(primary, "*")
        _wait(lambda: _synchronous(primary))
        yield
    finally:
        _set_synchronous(primary, "")
        standby.stop()


def _set_synchronous(primary: PostgresServer, names: str) -> None:
    with primary.connect() as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        connection.execute("SELECT pg_reload_conf()")


def _synchronous(primary: PostgresServer) -> bool:
    with primary.connect() as connection:
        found = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
    return found == [("sync",)]


def _rate(change: Callable[[int], None]) -> float:
    begun = time.perf_counter()
    for number in range(CHANGES):
        change(number)
    return CHANGES / (time.perf_counter() - begun)


def _add(store: AgentStore, name: str) -> None:
    with store.write() as connection:
        registry.add(connection, New(name=name), now=1)


class _BareChange:
    """What is written for one agent: its row, and three of ``meta``."""

    def __init__(self, record: Record) -> None:
        self._engine = record.engine
        with self._engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO secmon.stores VALUES ('bare', 0, '') ON CONFLICT DO NOTHING")
            self._revision = connection.exec_driver_sql(
                "SELECT revision FROM secmon.stores WHERE store = 'bare'"
            ).scalar_one()

    def __call__(self, number: int) -> None:
        meta = [ChangedRow("meta", f'["{name}"]', {"name": name, "value": "1"}) for name in ("a", "b", "c")]
        agent = ChangedRow("agents", f"[{self._revision}]", {"id": number, "name": "x", "internal_key": "k" * 64})
        with self._engine.begin() as connection:
            self._write(connection, [agent, *meta])

    def _write(self, connection: Connection, rows: list[ChangedRow]) -> None:
        prove_term(connection, FIRST)
        self._revision = advance(connection, "bare", self._revision, "x")
        put_rows(connection, "bare", self._revision, rows)


def _without_master(server: PostgresServer, rounds: int) -> Iterator[Figure]:
    say(f"three nodes; {rounds} switchovers, and as many masters killed")
    options = {"leaderd.term_seconds": _TERM_SECONDS}
    planned: list[float] = []
    killed: list[float] = []
    with ha_cluster(server.new_database(), options=options) as cluster:
        yield from _pauses(cluster, 2 * rounds)
        for number in range(rounds):
            planned.append(_until_changed(cluster, lambda _: secmon(cluster.nodes[0], "cluster", "switchover"), number))
            first = cluster.wait_leader()
            killed.append(_until_changed(cluster, RealNode.kill_everything, number + 1000))
            first.start(wait=False)
            _wait(cluster.running_whole)
    yield median_figure("from a switchover to the next change", planned, "s", aim=Aim(bound=2, of="value"))
    yield median_figure("from the loss of a master to the next change", killed, "s", aim=Aim(bound=15, of="value"))


def _pauses(cluster: HaCluster, rounds: int) -> Iterator[Figure]:
    """Clients read and write through all nodes while the role of master moves; none of their requests fails."""
    say(f"{rounds} switchovers under clients that do not stop")
    longest: list[float] = []
    for _ in range(rounds):
        history = History()
        clients = Clients(cluster, history, kinds=QUICK_KINDS)
        _changes_made(history, 20)
        secmon(cluster.nodes[0], "cluster", "switchover")
        _changes_made(history, 20)
        clients.stop()
        say(f"longest request {history.longest():.2f} s; {dict(clients.statuses)}")
        longest.append(history.longest())
        _wait(cluster.running_whole)
    yield median_figure("longest request at a switchover", longest, "s", aim=Aim(bound=2, of="value"))


def _changes_made(history: History, count: int) -> None:
    """Wait for so many more changes."""
    before = history.count(Outcome.DONE)
    _wait(lambda: history.count(Outcome.DONE) >= before + count)


def _until_changed(cluster: HaCluster, fault: Callable[[RealNode], object], number: int) -> float:
    """Seconds until a client that tries all other nodes in turn has made a change."""
    first = cluster.wait_leader()
    others = [node for node in cluster.nodes if node is not first]
    tokens = {node.name: cluster.login(node) for node in others}
    begun = time.perf_counter()
    fault(first)
    tries = 0
    while True:
        tries += 1
        node = others[tries % len(others)]
        try:
            answer = node.request("POST", "/groups", token=tokens[node.name], json={"group_id": f"g{number}-{tries}"})
        except httpx.HTTPError:
            time.sleep(0.02)
            continue
        if answer.status_code == 200:
            return time.perf_counter() - begun
        if answer.status_code == 401:
            tokens[node.name] = cluster.login(node)
        time.sleep(0.02)


def _wait(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.1)
