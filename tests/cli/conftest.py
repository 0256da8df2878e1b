"""Installations in folders short enough for the sockets below them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import run


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="secmon-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def master(root: Path) -> Path:
    """An installation of a master."""
    done = run("init", str(root / "n"), "--type", "master", "--node-name", "m", "--master", "127.0.0.1")
    assert done.exit_code == 0, done.output
    return root / "n"
