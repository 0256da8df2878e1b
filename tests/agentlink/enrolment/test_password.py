"""The password file."""

import logging
from pathlib import Path

import pytest

from secmon.agentlink.enrolment.password import read_password
from secmon.common.errors import ConfigError
from secmon.common.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc").mkdir()
    return Paths(tmp_path)


def test_the_first_line_counts(paths: Paths) -> None:
    for content, password in ((b"ab", b"ab"), (b"a b\nmore\n", b"a b"), ("pä\r\n".encode(), "pä".encode())):
        paths.enrolment_password.write_bytes(content)
        assert read_password(paths) == password


@pytest.mark.parametrize("content", [b"", b"a\n", b"\nabc", b"x" * 4095, b"a\0b"])
def test_a_file_without_one_stops_the_start(paths: Paths, content: bytes) -> None:
    paths.enrolment_password.write_bytes(content)
    with pytest.raises(ConfigError, match=r"authd\.pass"):
        read_password(paths)


def test_without_a_file_one_is_made_and_told(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "secmon.authd"):
        password = read_password(paths)
    assert len(password) == 32
    assert password.decode() in caplog.text
    assert read_password(paths) != password
    assert not paths.enrolment_password.exists()
