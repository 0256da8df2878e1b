"""What a node does before it is master."""

from pathlib import Path

import psycopg
import pytest

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.schema import SCHEMA
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.daemons.install import install
from secmon.daemons.node_builder import read_installation
from secmon.daemons.takeover import become_master
from tests.folders import REPOSITORY
from tests.postgres import PostgresServer

HELD = Term(4, "id", "b", "10.0.0.2", 1516)


def test_a_record_of_an_earlier_release_is_migrated_by_its_new_master_alone(
    tmp_path: Path, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url, paths = postgres.new_database(), Paths(tmp_path / "b")
    section = ClusterSection(node_name="b", node_type="worker", key="0123456789abcdefghijklmnopqrstuv", nodes=["x"])
    install(paths, cluster=section)
    text = paths.main_config.read_text()
    paths.main_config.write_text(text.replace("</cluster>", f"<store>{url.replace('&', '&amp;')}</store></cluster>"))
    node = read_installation(paths)
    with psycopg.connect(url, autocommit=True) as record:
        record.execute((REPOSITORY / "tests/compat/record_1.sql").read_bytes())
        with pytest.raises(SecmonError) as over:
            become_master(node, HELD)
        assert over.value.code == 3051, "it is not the master"
        assert record.execute("SELECT version FROM secmon.release").fetchall() == [(1,)]

        record.execute("UPDATE secmon.term SET number = 4, id = 'id', holder = 'b', address = '10.0.0.2', port = 1516")
        become_master(node, HELD)
        assert record.execute("SELECT version FROM secmon.release").fetchall() == [(SCHEMA.version,)]
    assert f"migrated from version 1 to {SCHEMA.version}" in caplog.text
    store = AgentStore(paths.agents_db)
    with store.read() as agents:
        assert [agent.name for agent in entries(agents)] == ["web-1", "db-1"]
    store.close()
