"""Connections to the store of record."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from secmon.cluster.leadership.terms import look
from secmon.cluster.record.engine import RecordAddress, open_record, unavailable


def test_connects_to_the_primary(record: RecordAddress) -> None:
    engine = open_record(record)
    with engine.begin() as connection:
        assert connection.execute(text("SHOW transaction_read_only")).scalar_one() == "off"
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "3s"
    engine.dispose()


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    address = RecordAddress(f"postgresql://secmon@/x?host={tmp_path}")
    engine = open_record(address)
    with pytest.raises(OperationalError) as failure, engine.connect():
        pass
    error = unavailable(address, failure.value)
    assert error.code == 3050
    assert str(tmp_path) in error.message
    assert "\n" not in error.message


def test_an_empty_database(record: RecordAddress) -> None:
    engine = open_record(record, connections=0)
    with pytest.raises(ProgrammingError) as failure, engine.connect() as connection:
        look(connection)
    assert "run secmon store migrate" in unavailable(record, failure.value).message


def test_the_password_stays_out_of_messages(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("rosebud\n")
    address = RecordAddress(f"postgresql://secmon@/x?host={tmp_path}", secret)
    with pytest.raises(OperationalError) as failure, open_record(address).connect():
        pass
    assert "rosebud" not in unavailable(address, failure.value).message + repr(failure.value) + address.shown
