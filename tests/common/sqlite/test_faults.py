"""Disks that are full and files that are damaged: what the engines of the stores say."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, exc, text

from secmon.common.errors import SecmonError
from secmon.common.sqlite.engine import open_engine, read_transaction, write_transaction
from secmon.common.sqlite.faults import StoreFault, storage_error, storage_reason
from tests.filelimit import file_size_limit
from tests.security.store.damage import damage_table, overwrite_pages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    engine = open_engine(path)
    with write_transaction(engine) as connection:
        connection.execute(text("CREATE TABLE t (x)"))
        connection.execute(text("INSERT INTO t VALUES (1)"))
    yield engine
    engine.dispose()


def read(engine: Engine) -> object:
    with read_transaction(engine) as connection:
        return connection.execute(text("SELECT x FROM t")).all()


def reported(fault: StoreFault) -> SecmonError:
    found = storage_error(fault)
    assert found is not None
    return found


def test_damage_found_at_work(engine: Engine, path: Path) -> None:
    damage_table(path, "t")
    with pytest.raises(StoreFault) as caught:
        read(engine)
    assert reported(caught.value).code == 2013
    assert str(path) in reported(caught.value).message
    assert "secmon config check" in str(caught.value)


def test_damage_found_at_the_opening(engine: Engine, path: Path) -> None:
    engine.dispose()
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(StoreFault) as caught:
        open_engine(path)
    assert reported(caught.value).code == 2013


def test_damaged_pages_behind_the_first(engine: Engine, path: Path) -> None:
    with write_transaction(engine) as connection:
        connection.execute(text("CREATE TABLE more (x)"))
    engine.dispose()
    overwrite_pages(path)
    engine = open_engine(path)
    with pytest.raises(StoreFault):
        read(engine)
    engine.dispose()


def test_a_full_disk(engine: Engine, path: Path) -> None:
    with read_transaction(engine) as connection:  # the pool hands the same connection out again
        connection.exec_driver_sql("PRAGMA max_page_count = 2")
    with pytest.raises(StoreFault) as caught, write_transaction(engine) as connection:
        connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": "secret" * 10_000})
    assert reported(caught.value).code == 1021
    assert "Free space" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert read(engine) == [(1,)]


def test_a_disk_that_does_not_take_it(engine: Engine, path: Path) -> None:
    with file_size_limit(20_000), pytest.raises(StoreFault) as caught, write_transaction(engine) as connection:
        connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": "much" * 100_000})
    assert reported(caught.value).code == 1005
    assert read(engine) == [(1,)]


def test_errors_of_statements_stay_what_they_are(engine: Engine) -> None:
    with pytest.raises(exc.OperationalError), read_transaction(engine) as connection:
        connection.execute(text("SELECT y FROM t"))
    assert storage_error(ValueError()) is None


def test_a_reason_names_no_statement(engine: Engine) -> None:
    reasons = set()
    for statement in ("SELECT a FROM absent", "SELECT b FROM absent"):
        with pytest.raises(exc.OperationalError) as caught, read_transaction(engine) as connection:
            connection.execute(text(statement))
        reasons.add(storage_reason(caught.value))
    assert reasons == {"no such table: absent"}
    assert storage_reason(OSError("disk")) == "disk"
