"""``secmon alerts``."""

import json
from pathlib import Path

import pytest

from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from tests.cli.runner import MASTER, run
from tests.outputs.alert_files import AlertFiles


@pytest.fixture
def paths(root: Path) -> Paths:
    assert run("init", root, *MASTER).exit_code == 0
    return Paths(root)


def test_reindex(paths: Paths) -> None:
    files = AlertFiles(paths.root)
    files.now = SystemClock().now().astimezone().replace(tzinfo=None)
    files.number(*range(20))
    files.close()
    with files.series.current.open("ab") as file:
        file.write(b"{\n")
    shown = run("alerts", "reindex", "--root", paths.root)
    assert shown.exit_code == 0
    assert "20 alerts are indexed" in shown.stdout
    assert "1 lines are no alerts" in shown.stdout
    data = json.loads(run("alerts", "reindex", "--root", paths.root, "--json").stdout)["data"]
    assert (data["alerts"], data["malformed_lines"]) == (20, 1)


def test_a_node_without_a_store(paths: Paths) -> None:
    text = paths.main_config.read_text().replace("<alerts>", "<alerts><store>no</store>", 1)
    paths.main_config.write_text(text)
    shown = run("alerts", "reindex", "--root", paths.root)
    assert shown.exit_code == 1
    assert "keeps no store" in shown.stderr
