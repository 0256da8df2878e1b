"""Commits of all connections are seen at once."""

import sqlite3
from pathlib import Path

import pytest

from secmon.common.sqlite.commit_watch import CommitWatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    return path


def test_the_token_changes_with_each_commit_and_only_then(file: Path) -> None:
    watch = CommitWatch(file)
    writer = sqlite3.connect(file, isolation_level=None)
    seen = {watch.token()}
    for number in range(3):
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (?)", (number,))
        assert watch.token() in seen
        writer.execute("COMMIT")
        token = watch.token()
        assert token not in seen
        assert watch.token() == token
        seen.add(token)
    writer.execute("SELECT * FROM t").fetchall()
    assert watch.token() in seen
    writer.close()
    watch.close()
