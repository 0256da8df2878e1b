"""Whether a node could be the master, before it claims a term."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from secmon.agents.registry import registry
from secmon.agents.registry.registry import New
from secmon.cluster.record.authority_record import put_authority
from secmon.cluster.record.readiness import Readiness, readiness
from secmon.common.paths import Paths
from tests.cluster.record.kit import Record, RecordedNode

KEY, OTHER = "k" * 32, "o" * 32


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """An installation without stores."""
    return Paths(tmp_path / "new")


def look(store: Record, paths: Paths, key: str = KEY) -> Readiness:
    with store.engine.begin() as connection:
        return readiness(connection, paths, key)


def test_the_cluster_key_opens_the_authority(node: RecordedNode, store: Record, paths: Paths) -> None:
    assert look(store, paths).obstacle == "", "none is recorded yet"
    with store.engine.begin() as connection:
        put_authority(connection, KEY, b"certificate", b"private")
    assert look(store, paths).obstacle == ""
    assert "The proof of the cluster key is wrong" in look(store, paths, OTHER).obstacle


def test_the_tables_are_those_of_this_release(node: RecordedNode, store: Record, paths: Paths) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE secmon.release SET version = 99"))
    assert "version 99 of its tables" in look(store, paths).obstacle


def test_how_far_the_copies_are_behind(node: RecordedNode, store: Record, paths: Paths) -> None:
    add(node, "a")
    assert look(store, paths).missing == 1, "there is no copy yet"
    copy(node.folder / "agents.db", paths.agents_db)
    copy(node.folder / "security.db", paths.security_db)
    assert look(store, paths).missing == 0
    add(node, "b")
    add(node, "c")
    assert look(store, paths) == Readiness("", 2)


def add(node: RecordedNode, name: str) -> None:
    with node.agents.write() as connection:
        registry.add(connection, New(name=name), now=1)


def copy(store: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(target)) as made:
        source.backup(made)


def test_a_copy_that_cannot_be_read(node: RecordedNode, store: Record, paths: Paths) -> None:
    paths.agents_db.parent.mkdir(parents=True)
    paths.agents_db.write_bytes(b"no database" * 1000)
    assert str(paths.agents_db) in look(store, paths).obstacle
