"""What is said of a store that cannot be looked into."""

import sqlite3
from pathlib import Path

import pytest

from secmon.common.sqlite import faults
from secmon.common.sqlite.inspection import UnreadableStore, look_into
from secmon.common.sqlite.schema import open_store
from tests.common.sqlite.toystore import schema_of


@pytest.mark.parametrize(("full", "said"), [(True, "No space is left .* Free space"), (False, "check the owner")])
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, said: str) -> None:
    """SQLite calls it an error of the disk: it cannot make the file beside the store that readers share."""
    schema, file = schema_of(tmp_path / "migrations"), tmp_path / "notes.db"
    open_store(file, schema).dispose()
    monkeypatch.setattr(faults, "_without_room", lambda path: full)

    def read(_connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    with pytest.raises(UnreadableStore, match=said):
        look_into(file, schema, read)
