"""A store of record with a term, and stores of a node that are recorded in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, delete, func, insert

from secmon.agents.registry.store import AgentStore
from secmon.agents.tasks.store import TaskStore
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.copies import bring_up_to, upload
from secmon.cluster.record.engine import RecordAddress, open_record
from secmon.cluster.record.recorded_stores import REGISTRY, SECURITY, TASKS, RecordedStore
from secmon.cluster.record.recorder import StoreRecorder
from secmon.cluster.record.schema import term
from secmon.cluster.record.setup import create_tables
from secmon.cluster.record.writes import read_contents
from secmon.cluster.rpc.version import MIN_PROTOCOL, PROTOCOL
from secmon.common.sqlite.engine import open_engine, write_transaction
from secmon.security.store.security_store import SecurityStore
from tests.waiting import LIMIT_SECONDS

FIRST = Term(1, "one", "node01", "127.0.0.1", 1516)
SECOND = Term(2, "two", "node02", "127.0.0.1", 1516)


class Record:
    """``engine`` is a connection of the tests' own."""

    def __init__(self, address: RecordAddress) -> None:
        self.address = address
        self.engine = open_record(address, statement_seconds=LIMIT_SECONDS)
        with self.engine.begin() as connection:
            create_tables(connection)
        self.begin(FIRST)

    def begin(self, new: Term) -> None:
        """Make ``new`` the current term."""
        with self.engine.begin() as connection:
            connection.execute(delete(term))
            values: dict[str, object] = {
                name: getattr(new, name) for name in ("number", "id", "holder", "address", "port")
            }
            rest = {
                "one": 1,
                "since": func.clock_timestamp(),
                "renewed": func.clock_timestamp(),
                "ttl_seconds": 10,
                "resigned": False,
            }
            rest |= {"successor": "", "reason": "", "protocol": PROTOCOL, "min_protocol": MIN_PROTOCOL}
            connection.execute(insert(term).values(values | rest))

    def close(self) -> None:
        self.engine.dispose()


class RecordedNode:
    """The stores of a master below ``folder``, recorded under ``held``. The ``first`` one fills the store of record."""

    def __init__(self, folder: Path, record: Record, held: Term, *, first: bool, statement_seconds: float) -> None:
        folder.mkdir(exist_ok=True)
        self.held = held
        self.folder = folder
        if first:
            self._fill(record)
        else:
            self.take_over(record)
        self.engine: Engine = open_record(record.address, statement_seconds=statement_seconds)
        self.security = SecurityStore(folder / "security.db")
        self.agents = AgentStore(folder / "agents.db")
        self.tasks = TaskStore(folder / "tasks.db")
        address = record.address

        def recorder(kind: RecordedStore) -> Callable[[Engine], StoreRecorder]:
            return lambda local: StoreRecorder(kind, local, self.engine, address, lambda: self.held, commit_seconds=0.5)

        self.security.record_with(recorder(SECURITY))
        self.agents.record_with(recorder(REGISTRY))
        self.tasks.record_with(recorder(TASKS))

    def _fill(self, record: Record) -> None:
        with record.engine.begin() as remote:
            for kind, local in self._locals():
                with write_transaction(local) as connection:
                    upload(remote, connection, kind)
                local.dispose()

    def take_over(self, record: Record) -> dict[str, bool]:
        """Bring the stores up to what is recorded; by name, whether they were behind."""
        behind = {}
        for kind, local in self._locals():
            with record.engine.begin() as remote:
                contents = read_contents(remote, kind.name)
            behind[kind.name] = bring_up_to(local, kind, contents)
            local.dispose()
        return behind

    def _locals(self) -> Iterator[tuple[RecordedStore, Engine]]:
        agents, tasks = AgentStore(self.folder / "agents.db"), TaskStore(self.folder / "tasks.db")
        SecurityStore(self.folder / "security.db").close()
        for store in (agents, tasks):
            store.version()
            store.close()
        yield SECURITY, open_engine(self.folder / "security.db")
        yield REGISTRY, open_engine(self.folder / "agents.db")
        yield TASKS, open_engine(self.folder / "tasks.db")

    def close(self) -> None:
        self.security.close()
        self.agents.close()
        self.tasks.close()
        self.engine.dispose()


@contextmanager
def recorded_node(
    folder: Path, record: Record, held: Term = FIRST, *, first: bool = True, statement_seconds: float = LIMIT_SECONDS
) -> Iterator[RecordedNode]:
    node = RecordedNode(folder, record, held, first=first, statement_seconds=statement_seconds)
    try:
        yield node
    finally:
        node.close()
