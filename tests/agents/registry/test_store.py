"""The agent store: opened at first use, of one version, with one writer at a time."""

import stat
import threading
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore, advance, number
from secmon.common.errors import SecmonError

ROW = {"id": 1, "name": "web-01", "register_ip": "any", "internal_key": "k" * 64, "date_add": 1, "revision": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue/db/agents.db"


def test_is_made_at_first_use_and_private(path: Path) -> None:
    store = AgentStore(path)
    assert not path.exists()
    assert store.revision() == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    store.close()


def test_an_agent_starts_as_never_connected(path: Path) -> None:
    store = AgentStore(path)
    with store.write() as connection:
        connection.execute(insert(agents), ROW)
    with store.read() as connection:
        row = connection.execute(select(agents)).one()
    assert (row.connection_status, row.node_name, row.group_config_status) == (
        "never_connected",
        "unknown",
        "not synced",
    )
    store.close()


def test_two_writers_are_serialized(path: Path) -> None:
    stores = [AgentStore(path), AgentStore(path, durable=False)]

    def count(store: AgentStore) -> None:
        for _ in range(50):
            with store.write() as connection:
                advance(connection, "sequence")

    threads = [threading.Thread(target=count, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with stores[0].read() as connection:
        assert number(connection, "sequence") == 100
    for store in stores:
        store.close()


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    first = AgentStore(path)
    with first.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0999'")
    first.close()
    with pytest.raises(SecmonError) as caught:
        AgentStore(path).revision()
    assert caught.value.code == 2012
    assert str(path) in caught.value.message
