"""What the failure of a start is called."""

import sqlite3
from pathlib import Path

import pytest

from secmon.common.sqlite.faults import StoreFault
from secmon.daemons.daemon import start_error


def test_a_store_on_a_full_disk_is_no_failure_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    path = Path("/srv/queue/db/agents.db")
    failure = start_error(StoreFault(1021, path, sqlite3.OperationalError("database or disk is full")))
    assert failure.code == 2004
    assert f"{path}: database or disk is full" in failure.detail
    assert not caplog.records
