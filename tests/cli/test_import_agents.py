"""``secmon import agents``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.cli import main
from secmon.common.paths import Paths
from secmon.daemons.supervisor_lock import SupervisorLock
from tests.importers.old_manager import OldManager


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", "agents", *map(str, arguments)])


@pytest.fixture
def paths(root: Path) -> Paths:
    done = CliRunner().invoke(main, ["init", str(root / "n")])
    assert done.exit_code == 0, done.output
    return Paths(root / "n")


@pytest.fixture
def old(tmp_path: Path) -> OldManager:
    old = OldManager(tmp_path / "old")
    old.agent(1, "web-01", groups=["default"])
    return old


def names(paths: Paths) -> list[str]:
    store = AgentStore(paths.agents_db)
    try:
        with store.read() as connection:
            return [one.name for one in entries(connection)]
    finally:
        store.close()


def test_import_and_again(paths: Paths, old: OldManager) -> None:
    done = run(old.root, "--root", paths.root)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "present    group default",
        "imported   file default/agent.conf",
        "imported   agent 001 web-01: in default",
        "2 imported, 1 present.",
        "The import is done.",
    ]
    assert names(paths) == ["web-01"]
    again = run(old.root, "--root", paths.root)
    assert again.stdout.splitlines()[-1] == "Nothing was changed: all of it is there."


def test_refusal_and_json(paths: Paths, old: OldManager) -> None:
    old.line("bad line")
    done = run(old.root, "--root", paths.root, "--json")
    assert done.exit_code == 1
    data = json.loads(done.stdout)["data"]
    assert (data["written"], data["counts"]["refused"]) == (False, 1)
    assert "Nothing was changed" in done.stderr
    assert names(paths) == []


def test_a_node_that_runs_is_left_alone(paths: Paths, old: OldManager) -> None:
    lock = SupervisorLock(paths.root)
    lock.acquire()
    try:
        done = run(old.root, "--root", paths.root)
        assert (done.exit_code, "stop it: secmon stop" in done.stderr) == (1, True)
        assert run(old.root, "--root", paths.root, "--dry-run").exit_code == 0
    finally:
        lock.release()


def test_a_folder_that_holds_no_manager(paths: Paths, tmp_path: Path) -> None:
    done = run(tmp_path, "--root", paths.root)
    assert (done.exit_code, "client.keys" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
