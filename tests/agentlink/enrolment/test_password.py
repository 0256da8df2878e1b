"""The password file."""

import logging
from pathlib import Path
from stat import S_IMODE

import pytest

from secmon.agentlink.enrolment.password import read_password
from secmon.common.errors import ConfigError
from secmon.common.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path)
    made.etc.mkdir()
    made.run.mkdir(parents=True)
    return made


def test_the_first_line_is_the_password(paths: Paths) -> None:
    for content, password in ((b"ab", b"ab"), (b"a b\nmore\n", b"a b"), ("pä\r\n".encode(), "pä".encode())):
        paths.enrolment_password.write_bytes(content)
        assert read_password(paths) == password


@pytest.mark.parametrize("content", [b"", b"a\n", b"\nabc", b"x" * 4095, b"a\0b"])
def test_a_file_without_a_password_stops_the_start(paths: Paths, content: bytes) -> None:
    paths.enrolment_password.write_bytes(content)
    with pytest.raises(ConfigError, match=r"authd\.pass"):
        read_password(paths)


def test_a_random_password_is_written_to_a_file_and_not_logged(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        password = read_password(paths)
    file = paths.random_enrolment_password
    assert len(password) == 32
    assert file.read_bytes() == password + b"\n"
    assert S_IMODE(file.stat().st_mode) == 0o640
    assert password.decode() not in caplog.text
    assert str(file) in caplog.text
    assert read_password(paths) != password
    assert not paths.enrolment_password.exists()
    paths.enrolment_password.write_bytes(b"of my own\n")
    assert read_password(paths) == b"of my own"
    assert not file.exists()


def test_a_random_password_that_cannot_be_written_stops_the_start(paths: Paths) -> None:
    paths.run.rmdir()
    with pytest.raises(ConfigError, match=r"var/run/authd\.pass"):
        read_password(paths)
