"""Files that a daemon follows."""

import logging
from pathlib import Path

import pytest

from secmon.common.counters import Counters
from secmon.common.errors import ConfigError
from secmon.config.followed_file import FollowedFile


def parse(data: bytes, file: str) -> str:
    text = data.decode()
    if text == "bad":
        raise ConfigError(file, "text", text, "a good one")
    return text


def test_changes_are_found_and_troubles_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counters, path = Counters(), tmp_path / "some.yml"
    file = FollowedFile(path, parse, max_bytes=10, log=logging.getLogger("secmon.test"), counters=counters)
    assert [file.changed(), file.changed()] == ["", None]
    path.write_text("one")
    assert [file.changed(), file.changed()] == ["one", None]
    path.write_text("bad")
    assert [file.changed(), file.changed()] == [None, None]
    path.unlink()
    path.mkdir()
    assert [file.changed(), file.changed()] == [None, None]
    path.rmdir()
    path.write_text("x" * 20)
    assert file.changed() == "x" * 11
    assert counters.snapshot() == {"some_yml.rejected": 1}
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "some.yml is invalid; its last valid version remains in force",
        str(path),
    ]
