"""``secmon audit`` on a real installation, and what other commands leave in the log."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.daemons.audit_anchors import AuditAnchors
from secmon.security.role_changes import create_role
from secmon.security.store.security_store import SecurityStore
from tests.importers.old_store import OldStore
from tests.manual_clock import ManualClock


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def master(root: Path) -> Paths:
    """An installation without a cluster."""
    done = run("init", str(root / "n"))
    assert done.exit_code == 0, done.output
    return Paths(root / "n")


def verify(paths: Paths, *more: str) -> Result:
    return run("audit", "verify", "--root", str(paths.root), *more)


def reset(paths: Paths) -> None:
    done = run("user", "reset-password", "dashboard", "--generate", "--root", str(paths.root))
    assert done.exit_code == 0, done.output


def test_nothing_was_changed_yet(master: Paths) -> None:
    done = verify(master)
    assert (done.exit_code, "is whole: 0 changes" in done.output) == (0, True), done.output


def test_password_resets_are_written_down(master: Paths) -> None:
    reset(master)
    line = json.loads(master.audit_log.read_text().splitlines()[-1])
    assert line["by"] == {
        "user": "local",
        "user_id": 0,
        "operation": "secmon user reset-password",
        "client": f"uid:{os.getuid()}",
    }
    assert line["changes"][0]["row"] == {"id": 2, "username": "dashboard", "allow_run_as": True}
    done = verify(master)
    assert (done.exit_code, "is whole: 1 changes" in done.output) == (0, True), done.output


def test_imports_are_written_down(master: Paths, tmp_path: Path) -> None:
    old = OldStore(tmp_path / "rbac.db")
    old.user(100, "mira")
    done = run("import", "rbac", str(old.path), "--root", str(master.root))
    assert done.exit_code == 0, done.output
    line = json.loads(master.audit_log.read_text().splitlines()[-1])
    assert line["by"]["operation"] == "secmon import rbac"
    assert {"id": 100, "username": "mira", "allow_run_as": False} in [one.get("row") for one in line["changes"]]
    assert verify(master).exit_code == 0


def test_the_log_belongs_to_the_owner_of_the_logs(master: Paths) -> None:
    reset(master)
    owner = master.logs.stat()
    for path in (master.audit_log, master.audit_log.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (owner.st_uid, owner.st_gid)


def test_an_altered_line_is_named(master: Paths) -> None:
    reset(master)
    master.audit_log.write_text(master.audit_log.read_text().replace('"dashboard"', '"somebody"'))
    done = verify(master)
    assert done.exit_code == 1
    assert "security.log, line 2: it was altered" in done.output
    answer = json.loads(verify(master, "--json").output)["data"]
    assert (answer["valid"], answer["problem"]["line"]) == (False, 2)


def test_a_removed_end_is_noticed(master: Paths) -> None:
    for _ in range(2):
        reset(master)
    lines = master.audit_log.read_text().splitlines(keepends=True)
    master.audit_log.write_text("".join(lines[:-1]))
    done = verify(master)
    assert (done.exit_code, "line 3: line 3, which was known before, is missing at the end" in done.output) == (1, True)
    copy = master.root / "copy.log"
    copy.write_text("".join(lines))
    assert run("audit", "verify", str(copy)).exit_code == 0


def test_a_removed_log_is_noticed(master: Paths) -> None:
    reset(master)
    master.audit_log.unlink()
    assert "line 2, which was known before, is missing" in verify(master).output
    reset(master)
    done = verify(master)
    assert (done.exit_code, "lines 1 to 2 are gone" in done.output) == (1, True), done.output


def test_lines_known_from_elsewhere(master: Paths) -> None:
    reset(master)
    last = json.loads(master.audit_log.read_text().splitlines()[-1])
    assert verify(master, "--anchor", f"{last['seq']}:{last['hash']}").exit_code == 0
    done = verify(master, "--anchor", f"{last['seq']}:{'0' * 64}")
    assert (done.exit_code, "rewritten" in done.output) == (1, True), done.output
    assert run("audit", "verify", str(master.audit_log), "--anchor", f"9:{'0' * 64}").exit_code == 1
    assert verify(master, "--anchor", "nonsense").exit_code == 2


@pytest.mark.anyio
async def test_the_anchor_is_logged_once_a_day(master: Paths, caplog: pytest.LogCaptureFixture) -> None:
    clock, store = ManualClock(), SecurityStore(master.security_db)
    task = AuditAnchors(store, clock)
    reset(master)
    with caplog.at_level(logging.INFO):
        for hours in (0, 1, 24, 1):
            clock.advance(hours * 3600)
            await task.look()
    end = store.audit_end()
    assert [record.message.split()[2] for record in caplog.records] == [str(end)] * 2
    store.close()


@pytest.mark.anyio
async def test_the_first_change_gets_its_anchor_on_its_day(master: Paths, caplog: pytest.LogCaptureFixture) -> None:
    store = SecurityStore(master.security_db)
    anchors = AuditAnchors(store, ManualClock())
    with caplog.at_level(logging.INFO):
        await anchors.look()
        reset(master)
        await anchors.look()
    assert [record.message.split()[2] for record in caplog.records] == [str(store.audit_end())]
    store.close()


def copied(paths: Paths) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in paths.security.glob("security.db*")}


def put_back(paths: Paths, copy: dict[str, bytes]) -> None:
    for file in paths.security.glob("security.db*"):
        file.unlink()
    for name, data in copy.items():
        (paths.security / name).write_bytes(data)


def anchor(paths: Paths) -> str:
    last = json.loads(paths.audit_log.read_text().splitlines()[-1])
    return f"{last['seq']}:{last['hash']}"


def test_an_older_copy_of_the_store_is_noticed(master: Paths) -> None:
    reset(master)
    old = copied(master)
    for _ in range(2):
        reset(master)
    assert verify(master).exit_code == 0
    put_back(master, old)
    done = verify(master)
    assert (done.exit_code, "older copy" in done.output) == (1, True), done.output


def test_a_store_that_is_one_change_older_is_noticed_with_an_anchor(master: Paths) -> None:
    reset(master)
    old = copied(master)
    reset(master)
    known = anchor(master)
    assert verify(master, "--anchor", known).exit_code == 0
    put_back(master, old)
    assert verify(master).exit_code == 0  # a crash leaves the same
    for _ in range(2):
        done = verify(master, "--anchor", known)
        assert (done.exit_code, "older copy" in done.output) == (1, True), done.output
        reset(master)


def test_a_store_that_cannot_be_written_ends_in_one_line(master: Paths) -> None:
    command = f"{sys.executable} -m secmon.cli user reset-password --generate --root {master.root}"
    limited = f"trap '' XFSZ; ulimit -f 64; exec {command}"  # room for 32 KiB: not for the write-ahead log
    done = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:7]) == (1, "Error: "), done.stderr
    assert "security.db" in done.stderr


def test_changes_beside_the_log_are_noticed(master: Paths) -> None:
    reset(master)
    store = SecurityStore(master.security_db)
    with store.write() as tx:
        create_role(tx, "secretly", SystemClock())
    store.close()
    assert verify(master).exit_code == 1


def test_no_installation(tmp_path: Path) -> None:
    done = run("audit", "verify", "--root", str(tmp_path))
    assert (done.exit_code, "holds no installation" in done.output) == (1, True)
