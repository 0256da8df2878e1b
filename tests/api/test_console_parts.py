"""What the pages of the console are made from: their tests in ``console/tests``, and their size."""

import shutil
import subprocess
from pathlib import Path

import pytest

from secmon.api.console import FOLDER

SOURCES = Path(__file__).parents[2] / "console"
NODE = shutil.which("node")
LARGEST = 150_000
"""Bytes of all files together, compressed."""


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
@pytest.mark.skipif(not (SOURCES / "node_modules/esbuild").exists(), reason="needs the libraries: make console")
def test_parts_of_pages() -> None:
    done = subprocess.run(["node", SOURCES / "test.mjs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail 0" in done.stdout


@pytest.mark.skipif(not (FOLDER / "index.html.gz").exists(), reason="needs the console: make console")
def test_the_console_stays_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.glob("*.gz")) <= LARGEST
