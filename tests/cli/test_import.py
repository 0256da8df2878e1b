"""``secmon import rbac``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.cli.import_ import _PROGRESS_FROM
from secmon.common.paths import Paths
from secmon.security.credentials import authenticate
from secmon.security.store.security_store import SecurityStore
from tests.importers.old_store import HASH, OldStore


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["import", "rbac", *map(str, arguments)])


@pytest.fixture
def installed(root: Path) -> Path:
    folder = root / "n"
    done = CliRunner().invoke(main, ["init", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def old(tmp_path: Path) -> OldStore:
    made = OldStore(tmp_path / "rbac.db")
    made.user(100, "mira")
    made.role(100, "ops")
    made.link("user_roles", 100, 100)
    return made


def revision(folder: Path) -> int:
    store = SecurityStore(Paths(folder).security_db)
    try:
        return store.revision()
    finally:
        store.close()


def test_import_and_again(installed: Path, old: OldStore) -> None:
    done = run(old.path, "--root", installed)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-3:] == [
        "imported   user-role 100 mira - ops",
        "3 imported, 2 password.",
        "The import is done.",
    ]
    assert done.stderr == ""
    store = SecurityStore(Paths(installed).security_db)
    try:
        assert authenticate(store.view(), "mira", "Quarry-7!lamp").roles == (100,)
    finally:
        store.close()
    again = run(old.path, "--root", installed)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[-2:] == ["4 present.", "Nothing was changed: all of it is there."]


def test_json(installed: Path, old: OldStore) -> None:
    done = run(old.path, "--root", installed, "--json")
    assert done.exit_code == 0
    data = json.loads(done.stdout)["data"]
    assert (data["written"], data["counts"]) == (True, {"password": 2, "imported": 3})
    assert data["lines"][2] == {"result": "imported", "kind": "user", "id": 100, "name": "mira", "text": ""}


def test_dry_run(installed: Path, old: OldStore) -> None:
    before = revision(installed)
    done = run(old.path, "--root", installed, "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.endswith("Nothing was changed: dry run.\n")
    assert revision(installed) == before


def test_refused_rows_are_named(installed: Path, old: OldStore) -> None:
    old.rule(100, "bad", "[]")
    before = revision(installed)
    for option in ((), ("--json",)):
        done = run(old.path, "--root", installed, *option)
        assert done.exit_code == 1
        assert "the body is not usable" in done.stdout
        assert done.stderr.startswith("Error: Nothing was changed: correct or delete the refused rows")
    assert revision(installed) == before


def test_progress_of_a_large_import(installed: Path, old: OldStore) -> None:
    names = [(number, f"user{number}", HASH, 0, None) for number in range(200, 200 + _PROGRESS_FROM)]
    old.run_many("INSERT INTO users VALUES (?, ?, ?, ?, ?)", names)
    done = run(old.path, "--root", installed)
    assert done.exit_code == 0
    total = _PROGRESS_FROM + 7  # mira, ops, their link, two next ids, two passwords
    assert done.stderr.endswith(f"\r100 % of {total} rows\n")
    assert f"\r 50 % of {total} rows" in done.stderr


def test_what_is_no_database(installed: Path, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("no database")
    done = run(path, "--root", installed)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: The database cannot be used: {path}: file is not a database.")


def test_only_on_a_master_that_exists(root: Path, tmp_path: Path, old: OldStore) -> None:
    done = run(old.path, "--root", root / "none")
    assert done.exit_code == 1
    assert "holds no installation" in done.stderr
    key = tmp_path / "key"
    key.write_text("k" * 32)
    options = ("--type", "worker", "--node-name", "w1", "--master", "10.0.0.1", "--key-file", str(key))
    assert CliRunner().invoke(main, ["init", str(root / "w"), *options]).exit_code == 0
    done = run(old.path, "--root", root / "w")
    assert done.exit_code == 1
    assert "this node is a worker: run the command on the master" in done.stderr
    assert run(tmp_path / "absent").exit_code == 2
