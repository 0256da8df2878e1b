"""Faults of the database while a master writes: nothing that was answered is lost, and every refusal says why."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.common.sqlite.faults import RecordFault
from tests.cluster.record.kit import Record, RecordedNode, recorded_node
from tests.cluster.record.test_recorder import add, names, recorded_names
from tests.postgres import PostgresServer, running_server
from tests.waiting import wait_until


def refusal(node: RecordedNode, name: str) -> str:
    """Why a change is refused; with its code."""
    with pytest.raises(RecordFault) as fault:
        add(node, name)
    return f"{fault.value.error_code}: {fault.value.reason}"


def execute(store: Record, statement: str) -> None:
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(statement))


def test_a_connection_that_was_cut_between_two_changes_costs_none(node: RecordedNode, store: Record) -> None:
    add(node, "a")
    execute(
        store,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    add(node, "b")
    assert names(node) == recorded_names(store) == ["a", "b"]


@pytest.fixture
def hurried(store: Record, tmp_path: Path) -> Iterator[RecordedNode]:
    """With the limits of a real node."""
    with recorded_node(tmp_path / "one", store, statement_seconds=3.0) as opened:
        yield opened


def test_a_database_that_is_too_slow(hurried: RecordedNode, store: Record) -> None:
    """Another session keeps a lock, as a slow disk keeps a statement."""
    with psycopg.connect(store.address.url) as connection:
        connection.execute("LOCK TABLE secmon.rows")
        assert re.match("3050: .*(too slow|locked for too long)", refusal(hurried, "a"))
    add(hurried, "a")
    assert names(hurried) == recorded_names(store) == ["a"]


def test_all_connections_are_busy(hurried: RecordedNode, store: Record) -> None:
    with hurried.engine.connect(), hurried.engine.connect():
        assert re.match("3050: .*all connections of this node are busy", refusal(hurried, "a"))
    add(hurried, "a")
    assert names(hurried) == recorded_names(store) == ["a"]


def database(store: Record) -> str:
    with store.engine.begin() as connection:
        return str(connection.execute(text("SELECT current_database()")).scalar_one())


def test_a_database_that_is_read_only(node: RecordedNode, store: Record) -> None:
    name = database(store)
    execute(store, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    node.engine.dispose()
    assert re.match("3050: .*accepts no changes", refusal(node, "a"))
    with store.engine.connect() as connection:
        connection.execute(text("SET TRANSACTION READ WRITE"))
        connection.execute(text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
        connection.commit()
    add(node, "a")
    assert names(node) == recorded_names(store) == ["a"]


def test_a_full_disk_of_the_database(node: RecordedNode, store: Record) -> None:
    execute(
        store,
        "CREATE FUNCTION secmon.full() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file'; END $$",
    )
    execute(store, "CREATE TRIGGER no_room BEFORE INSERT ON secmon.rows EXECUTE FUNCTION secmon.full()")
    assert re.match("3050: .*the disk of the database is full", refusal(node, "a"))
    assert names(node) == recorded_names(store) == []
    execute(store, "DROP TRIGGER no_room ON secmon.rows")
    add(node, "a")
    assert names(node) == recorded_names(store) == ["a"]


def test_a_term_that_the_database_has_lost(node: RecordedNode, store: Record) -> None:
    """The number is there again, with another id: a restored database has issued it once more."""
    add(node, "a")
    store.begin(Term(node.held.number, "another id", "node02", "10.0.0.2", 1516))
    assert refusal(node, "b").startswith("3051: ")
    execute(store, "DELETE FROM secmon.term")
    assert refusal(node, "b").startswith("3051: ")
    assert names(node) == recorded_names(store) == ["a"]


class Pair:
    """A primary with a synchronous standby, in one URL."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary, self.standby = primary, standby

    def address(self) -> RecordAddress:
        name = self.primary.new_database().partition("?")[0]
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return RecordAddress(f"{name}?host={hosts}&port=5432,5432")

    def synchronous(self) -> bool:
        with self.primary.connect() as connection:
            found = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall()
        return found == [("sync",)]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Pair]:
    folder = postgres.folder.parent / "pair"
    with running_server(folder / "1") as primary:
        standby = PostgresServer(folder / "2", primary=primary)
        try:
            with primary.connect() as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            made = Pair(primary, standby)
            wait_until(made.synchronous, "the standby is synchronous")
            yield made
        finally:
            if (standby.data / "postmaster.pid").exists():
                standby.stop()


def test_a_synchronous_standby_that_is_lost_and_one_that_takes_over(pair: Pair, tmp_path: Path) -> None:
    store = Record(pair.address())
    with recorded_node(tmp_path / "one", store) as node:
        add(node, "a")
        pair.standby.stop()
        assert re.match("3052: .*the standby has not confirmed it", refusal(node, "b"))
        pair.standby.start()
        wait_until(pair.synchronous, "the standby is back")
        assert refusal(node, "c").startswith("3053: ")
        add(node, "c")

        pair.primary.stop()
        assert refusal(node, "d").startswith("3050: ")
        with pair.standby.connect() as connection:
            connection.execute("SELECT pg_promote()")
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
        add(node, "d")
        store.engine.dispose()
        assert names(node) == recorded_names(store) == ["a", "b", "c", "d"], "nothing that was answered is lost"
    store.close()
