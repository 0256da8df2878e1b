"""``secmon import sigma``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.common.paths import Paths
from secmon.importers.sigma import RULES

RULE = """title: A tool
id: 5f113a8f-8b61-41ca-b90f-d374fa7e4a39
logsource: {product: windows, category: process_creation}
detection:
  selection: {Image|endswith: '\\tool.exe'}
  condition: selection
level: high
"""
OTHER = RULE.replace("process_creation", "coffee_machine").replace("4a39", "4a38").replace("A tool", "A cup")
EVENT = {
    "win": {
        "system": {"channel": "Microsoft-Windows-Sysmon/Operational", "eventID": "1"},
        "eventdata": {"image": "C:\\tool.exe"},
    }
}


def run(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin)


@pytest.fixture
def paths(root: Path) -> Paths:
    done = run("init", root / "n")
    assert done.exit_code == 0, done.output
    return Paths(root / "n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sigma"
    made.mkdir()
    (made / "tool.yml").write_text(RULE)
    (made / "cup.yml").write_text(OTHER)
    return made


def test_imported_rules_make_alerts_in_logtest(paths: Paths, folder: Path) -> None:
    done = run("import", "sigma", folder, "--root", paths.root, "--all")
    assert done.exit_code == 0, done.output
    assert "imported     300000 tool.yml 'A tool'" in done.stdout
    assert "1  log source: product windows, category coffee_machine" in done.stdout
    assert "1 imported, 1 untranslated." in done.stdout
    shown = run("logtest", "--root", paths.root, stdin=json.dumps(EVENT) + "\n").stdout
    assert "Stage 3: side tree" in shown
    assert "description: Sigma: A tool" in shown
    assert "An alert would be written." in shown.partition("side tree")[2]
    again = run("import", "sigma", folder, "--root", paths.root)
    assert "Nothing was changed: all of it is there." in again.stdout


def test_a_report_for_programs(paths: Paths, folder: Path) -> None:
    done = run("import", "sigma", folder, "--root", paths.root, "--dry-run", "--json")
    data = json.loads(done.stdout)["data"]
    assert data["counts"] == {"imported": 1, "untranslated": 1}
    assert data["written"] is False
    assert data["reasons"] == [{"reason": "log source: product windows, category coffee_machine", "rules": 1}]
    assert [line["place"] for line in data["lines"]] == ["cup.yml"]
    assert not (paths.root / RULES).exists()


def test_what_is_refused_changes_nothing(paths: Paths, folder: Path, tmp_path: Path) -> None:
    run("import", "sigma", folder, "--root", paths.root)
    before = (paths.root / RULES).read_bytes()
    (tmp_path / "bad.yml").write_text("title: x")
    (paths.root / "etc/rules/own.xml").write_text('<group name="x,"><rule id="5"')
    for path, status in ((tmp_path / "bad.yml", 1), (tmp_path / "none.yml", 2)):
        done = run("import", "sigma", path, "--root", paths.root)
        assert done.exit_code == status, done.output
    assert (paths.root / RULES).read_bytes() == before
