"""Engine settings, on real files."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from sqlalchemy import exc, text

from secmon.common.sqlite import engine as module
from secmon.common.sqlite.engine import open_engine, read_transaction, write_transaction
from secmon.common.sqlite.files import folder_lock
from tests.waiting import wait_until


def test_file_mode_ignores_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "folder/file.db"
    before = os.umask(0o077)
    try:
        engine = open_engine(path)
        with write_transaction(engine) as connection:
            connection.execute(text("CREATE TABLE t (x)"))
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    engine.dispose()
    assert modes == {"file.db": 0o640, "file.db-wal": 0o640, "file.db-shm": 0o640}


def test_who_opens_a_new_file_waits_for_another_who_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite does not wait where the journal mode changes: "database is locked", whatever the busy timeout."""
    path, waits = tmp_path / "file.db", list[Path]()

    def noted(folder: Path) -> AbstractContextManager[None]:
        waits.append(folder)
        return folder_lock(folder)

    monkeypatch.setattr(module, "folder_lock", noted)
    with ThreadPoolExecutor() as pool:
        with folder_lock(tmp_path), closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE t (x)")
            other.execute("BEGIN IMMEDIATE")
            opening = pool.submit(open_engine, path)
            wait_until(lambda: waits or opening.done())
        engine = opening.result()
    with read_transaction(engine) as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    engine.dispose()


def test_pragmas(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "file.db", synchronous="NORMAL")
    with read_transaction(engine) as connection:
        found = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    engine.dispose()
    assert found == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 1, "busy_timeout": 15000}


def test_write_transaction_rolls_back(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "file.db")
    with write_transaction(engine) as connection:
        connection.execute(text("CREATE TABLE t (x UNIQUE)"))
    insert = text("INSERT INTO t VALUES (:x)")
    with pytest.raises(exc.IntegrityError), write_transaction(engine) as connection:
        connection.execute(insert, [{"x": 1}, {"x": 2}, {"x": 1}])
    with read_transaction(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
    engine.dispose()


def test_errors_do_not_tell_values(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "file.db")
    with pytest.raises(exc.OperationalError) as caught, write_transaction(engine) as connection:
        connection.execute(text("INSERT INTO absent VALUES (:x)"), {"x": "s3cret"})
    engine.dispose()
    assert "s3cret" not in str(caught.value)


def test_reader_sees_one_state(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "file.db")
    with write_transaction(engine) as connection:
        connection.execute(text("CREATE TABLE t (x)"))
    count = text("SELECT count(*) FROM t")
    with read_transaction(engine) as reader:
        assert reader.execute(count).scalar_one() == 0
        with write_transaction(engine) as writer:
            writer.execute(text("INSERT INTO t VALUES (1)"))
        assert reader.execute(count).scalar_one() == 0
    engine.dispose()
