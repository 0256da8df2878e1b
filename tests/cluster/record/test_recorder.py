"""Writes of a master, committed to the store of record first."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event, insert, select, text, update

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import New
from secmon.agents.registry.schema import agents
from secmon.agents.tasks.schema import tasks
from secmon.cluster.record.schema import rows, stores
from secmon.cluster.record.writes import read_contents
from secmon.common.clock import SystemClock
from secmon.common.sqlite.faults import RecordFault
from secmon.security.audit import Actor, audited
from secmon.security.origin import initialise
from secmon.security.store.schema import users
from tests.cluster.record.kit import FIRST, SECOND, Record, RecordedNode, recorded_node
from tests.postgres import PostgresServer

TASK = {"agent_id": 2, "node": "n", "module": "m", "command": "c", "create_time": 1, "status": "s", "work": "{}"}
AUTHOR = Actor(user="ana", user_id=1, operation="test")


def add(node: RecordedNode, name: str) -> None:
    with node.agents.write() as connection:
        registry.add(connection, New(name=name), now=1)


def names(node: RecordedNode) -> list[str]:
    with node.agents.read() as connection:
        return [one.name for one in entries(connection)]


def recorded_names(store: Record) -> list[str]:
    with store.engine.begin() as connection:
        found = read_contents(connection, "registry").rows.get("agents", [])
    return sorted(str(row["name"]) for row in found)


def refused(node: RecordedNode, name: str) -> int:
    with pytest.raises(RecordFault) as failure:
        add(node, name)
    return failure.value.error_code


def test_changes_are_recorded(node: RecordedNode, store: Record) -> None:
    add(node, "a")
    add(node, "b")
    with node.agents.write() as connection:
        registry.remove(connection, [1])
    with node.tasks.write() as connection:
        connection.execute(insert(tasks).values(TASK))
    assert recorded_names(store) == ["b"]
    with store.engine.begin() as connection:
        contents = read_contents(connection, "registry")
        assert contents.deleted["agents"] == [[1]]
        assert contents.meta["next_id"] == "3"
        assert len(read_contents(connection, "tasks").rows["tasks"]) == 1


def test_states_are_not_recorded(node: RecordedNode, store: Record) -> None:
    add(node, "a")
    with store.engine.begin() as connection:
        before = connection.execute(select(stores.c.revision).where(stores.c.store == "registry")).scalar_one()
    with node.agents.write() as connection:
        connection.execute(update(agents).values(connection_status="active", last_keepalive=5))
    with store.engine.begin() as connection:
        assert connection.execute(select(stores.c.revision).where(stores.c.store == "registry")).scalar_one() == before


def test_a_node_whose_term_has_ended_changes_nothing(node: RecordedNode, store: Record) -> None:
    add(node, "a")
    store.begin(SECOND)
    assert refused(node, "b") == 3051
    assert (names(node), recorded_names(store)) == (["a"], ["a"])


def test_without_the_database_nothing_is_changed(node: RecordedNode, store: Record, postgres: PostgresServer) -> None:
    add(node, "a")
    postgres.stop()
    try:
        assert refused(node, "b") == 3050
        assert names(node) == ["a"]
        with node.agents.write() as connection:  # no change of what is recorded
            connection.execute(update(agents).values(connection_status="active"))
    finally:
        postgres.start()
    add(node, "b")
    assert recorded_names(store) == ["a", "b"]


def test_a_commit_that_only_the_record_has(node: RecordedNode, store: Record) -> None:
    """As after a crash between the two commits: the next write brings the node up to the record."""
    add(node, "a")
    engine = node.agents._engine()

    @event.listens_for(engine, "commit", once=True)
    def fail(_connection: object) -> None:
        raise sqlite3.OperationalError("disk full")

    assert refused(node, "b") == 3052
    assert (names(node), recorded_names(store)) == (["a"], ["a", "b"])
    assert refused(node, "c") == 3053
    assert names(node) == ["a", "b"]
    add(node, "c")
    assert recorded_names(store) == ["a", "b", "c"]


def test_a_lost_answer_of_a_commit_is_found_out(node: RecordedNode, store: Record) -> None:
    """The connection ends while the commit runs: it took place, and is not reported as a failure."""
    add(node, "a")

    @event.listens_for(node.engine, "commit", once=True)
    def cut(connection: object) -> None:
        driver = connection.connection.driver_connection  # type: ignore[attr-defined]
        driver.execute("COMMIT")
        with store.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": driver.info.backend_pid})

    add(node, "b")
    add(node, "c")
    assert names(node) == recorded_names(store) == ["a", "b", "c"]


def test_a_commit_that_failed_is_a_failure(node: RecordedNode, store: Record) -> None:
    @event.listens_for(node.engine, "commit", once=True)
    def kill(connection: object) -> None:
        driver = connection.connection.driver_connection  # type: ignore[attr-defined]
        with store.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": driver.info.backend_pid})

    assert refused(node, "a") == 3050
    assert names(node) == recorded_names(store) == []
    add(node, "a")


def test_a_commit_that_its_standby_has_not_confirmed(node: RecordedNode, store: Record) -> None:
    """There is no standby: the wait is cancelled by the time-out, and PostgreSQL answers success with a warning."""
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ALTER SYSTEM SET synchronous_standby_names = 'other'"))
        connection.execute(text("SELECT pg_reload_conf()"))
    try:
        assert refused(node, "a") == 3052
    finally:
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ALTER SYSTEM RESET synchronous_standby_names"))
            connection.execute(text("SELECT pg_reload_conf()"))
    assert recorded_names(store) == ["a"]
    assert refused(node, "b") == 3053
    assert names(node) == ["a"]


def test_the_next_master_has_everything(node: RecordedNode, store: Record, tmp_path: Path) -> None:
    initialise(
        node.security,
        admin_password="Long-Enough-1",
        dashboard_password="Long-Enough-2",
        clock=SystemClock(),
        transaction=audited(node.security, tmp_path / "one/audit.log", AUTHOR, SystemClock()),
    )
    for name in ("a", "b"):
        add(node, name)
    store.begin(SECOND)
    with recorded_node(tmp_path / "two", store, SECOND, first=False) as other:
        assert other.security.digest() == node.security.digest()
        assert names(other) == ["a", "b"]
        assert other.take_over(store) == {"security": False, "registry": False, "tasks": True}
        add(other, "c")
        assert refused(node, "d") == 3051
        assert recorded_names(store) == ["a", "b", "c"]
        with other.security.read() as connection:
            assert [row["username"] for row in connection.select(users)] == ["admin", "dashboard"]


def test_an_id_of_a_task_is_never_given_out_again(node: RecordedNode, store: Record, tmp_path: Path) -> None:
    with node.tasks.write() as connection:
        connection.execute(insert(tasks), [TASK, TASK])
    with node.tasks.write() as connection:
        connection.execute(tasks.delete())
    store.begin(SECOND)
    with recorded_node(tmp_path / "two", store, SECOND, first=False) as other, other.tasks.write() as connection:
        assert connection.execute(insert(tasks).values(TASK)).inserted_primary_key == (3,)


def test_the_audit_log_is_recorded_with_its_change(node: RecordedNode, store: Record, tmp_path: Path) -> None:
    log = tmp_path / "one/audit.log"
    node.held = SECOND  # not the current one: its line stays in the log, and the change is not made
    with pytest.raises(RecordFault), audited(node.security, log, AUTHOR, SystemClock()) as transaction:
        transaction.next_id(users)
    node.held = FIRST
    with audited(node.security, log, AUTHOR, SystemClock()) as transaction:
        transaction.next_id(users)
    copy = tmp_path / "copy.log"
    with store.engine.begin() as connection:
        found = connection.execute(text("SELECT lines FROM secmon.audit ORDER BY seq")).scalars()
        copy.write_bytes(b"".join(found))
    assert copy.read_bytes() == log.read_bytes()
    assert b'"void"' in log.read_bytes()


def test_rows_are_readable(node: RecordedNode, store: Record) -> None:
    add(node, "web-1")
    with store.engine.begin() as connection:
        row = connection.execute(select(rows.c.row).where(rows.c.table == "agents")).scalar_one()
    assert row["name"] == "web-1"
