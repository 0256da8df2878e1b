"""``secmon import attack`` and ``secmon ruleset coverage``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.common.paths import Paths
from tests.knowledge.attack.bundles import TACTIC, TECHNIQUE, bundle


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def paths(root: Path) -> Paths:
    done = run("init", root / "n")
    assert done.exit_code == 0, done.output
    return Paths(root / "n")


def test_import_and_rollback(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "attack.json"
    file.write_bytes(bundle())
    done = run("import", "attack", file, "--root", paths.root)
    assert (done.exit_code, done.stdout) == (
        0,
        "Imported: 1 tactics, 3 techniques, 1 groups, 1 software, 1 mitigations\n",
    )
    file.write_bytes(bundle(TACTIC, TECHNIQUE))
    done = run("import", "attack", file, "--root", paths.root, "--json")
    assert json.loads(done.stdout)["data"]["imported"]["techniques"] == 1
    shown = run("ruleset", "coverage", "--root", paths.root)
    assert "of 1 techniques are named by rules" in shown.stdout
    assert run("import", "attack", "--rollback", "--root", paths.root).exit_code == 0
    assert "of 2 techniques" in run("ruleset", "coverage", "--root", paths.root).stdout


def test_what_is_refused_changes_nothing(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "attack.json"
    file.write_bytes(b"{}")
    for arguments, status, text in (
        ((file,), 1, "nothing was changed"),
        ((tmp_path / "none",), 1, "No such file"),
        (("http://127.0.0.1:1/x",), 1, "nothing was changed"),
        (("ftp://127.0.0.1/x",), 1, "'ftp://127.0.0.1/x' is no address beginning with http:// or https://"),
        (("/dev",), 1, "Is a directory"),
        (("--rollback",), 1, "nothing was imported"),
        ((), 2, "FILE or URL"),
        ((file, "--rollback"), 2, "FILE or URL"),
    ):
        done = run("import", "attack", *arguments, "--root", paths.root)
        assert (done.exit_code, text in done.output) == (status, True), done.output
    assert not paths.attack.exists()


def test_coverage_of_the_product() -> None:
    table = run("ruleset", "coverage").stdout
    assert "Brute Force" in table
    layer = json.loads(run("ruleset", "coverage", "--navigator").stdout)
    assert layer["versions"]["layer"] == "4.5"
    assert "T1110" in {one["techniqueID"] for one in layer["techniques"]}


def test_rules_name_techniques_that_are_in_use() -> None:
    checked = json.loads(run("ruleset", "check", "--json").stdout)
    assert checked["data"]["wrong_techniques"] == {}
