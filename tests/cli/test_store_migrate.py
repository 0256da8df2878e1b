"""``secmon store``: an installation moves into PostgreSQL, and back."""

from pathlib import Path

import pytest
from sqlalchemy import func, update

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.cluster.record.engine import open_record
from secmon.cluster.record.masters_record import record_address
from secmon.cluster.record.schema import term
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.config.main import load_main_config
from secmon.daemons.install import install
from secmon.security.store.security_store import SecurityStore
from tests.cli.runner import run
from tests.integration.ha_kit import use_address_and_store
from tests.postgres import PostgresServer


@pytest.fixture
def paths(tmp_path: Path, postgres: PostgresServer) -> Paths:
    made = Paths(tmp_path / "node")
    install(made, cluster=ClusterSection(key="k" * 32, nodes=["127.0.0.1"]))
    use_address_and_store(made, postgres.new_database(), "127.0.0.1")
    store = AgentStore(made.agents_db)
    with store.write() as connection:
        registry.add(connection, New(name="web-1"), now=1)
    store.close()
    (made.etc / "lists").mkdir(exist_ok=True)
    (made.etc / "lists/mine").write_text("a:b\n")
    return made


def names(paths: Paths) -> list[str]:
    store = AgentStore(paths.agents_db)
    with store.read() as connection:
        found = [one.name for one in entries(connection)]
    store.close()
    return found


def digest(paths: Paths) -> str:
    store = SecurityStore(paths.security_db, writable=False)
    try:
        return store.digest()
    finally:
        store.close()


def test_there_and_back(paths: Paths) -> None:
    before = digest(paths)
    moved = run("store", "migrate", "--root", str(paths.root))
    assert moved.exit_code == 0, moved.output
    assert "registry: " in moved.output
    status = run("store", "status", "--root", str(paths.root))
    assert status.exit_code == 0, status.output
    assert "term 0: no master yet" in status.output
    again = run("store", "migrate", "--root", str(paths.root))
    assert again.exit_code == 1
    assert "holds a store of record already" in again.output
    assert "the option store" in again.output
    for file in (paths.security_db, paths.agents_db, paths.etc / "lists/mine"):
        file.unlink()
        for rest in ("-wal", "-shm"):
            file.with_name(file.name + rest).unlink(missing_ok=True)
    back = run("store", "migrate", "--back", "--root", str(paths.root))
    assert back.exit_code == 0, back.output
    assert names(paths) == ["web-1"]
    assert digest(paths) == before
    assert (paths.etc / "lists/mine").read_text() == "a:b\n"
    gone = run("store", "status", "--root", str(paths.root))
    assert gone.exit_code == 1
    assert "no store of record" in gone.output


def test_back_changes_nothing_while_a_node_is_master(paths: Paths) -> None:
    assert run("store", "migrate", "--root", str(paths.root)).exit_code == 0
    store = load_main_config(paths).cluster.store
    assert store is not None
    engine = open_record(record_address(paths, store), connections=0)
    with engine.begin() as record:
        record.execute(update(term).values(holder="node2", renewed=func.clock_timestamp(), ttl_seconds=600))
    engine.dispose()
    (paths.etc / "lists/mine").write_text("by hand:\n")
    back = run("store", "migrate", "--back", "--root", str(paths.root))
    assert back.exit_code == 1
    assert "node2 is master" in back.output
    assert (paths.etc / "lists/mine").read_text() == "by hand:\n"


def test_commands_for_own_stores_are_refused(paths: Paths) -> None:
    for command in (("cluster", "promote"), ("agents", "rebuild"), ("user", "create-defaults")):
        done = run(*command, "--root", str(paths.root))
        assert done.exit_code == 1, done.output
        assert "docs/high-availability.md" in done.output


def test_a_database_that_is_not_there(paths: Paths, postgres: PostgresServer) -> None:
    postgres.stop()
    try:
        done = run("store", "migrate", "--root", str(paths.root))
    finally:
        postgres.start()
    assert done.exit_code == 1
    assert "The store of record cannot be used" in done.output
    assert "Traceback" not in done.output
    assert names(paths) == ["web-1"]


def test_without_the_option(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "plain")
    install(paths, cluster=None)
    done = run("store", "status", "--root", str(paths.root))
    assert done.exit_code == 1
    assert "names no store" in done.output
