"""A security store that is lost, or a copy of another master's: who refuses to work with it, and the ways out."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.cluster.store_checks import check_security, read_security_summary, security_problem
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.daemons.supervisor_settings import read_supervisor_settings
from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import authenticate
from secmon.security.store.schema import SCHEMA
from secmon.security.store.security_store import SecurityStore
from secmon.security.tokens import Tokens
from tests.security.store.damage import overwrite_pages

PASSWORD = "A-Secret-Word-77"
KEY = "k" * 32


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=text)


def at(paths: Paths, *arguments: str, text: str | None = None) -> Result:
    return run(*arguments, "--root", str(paths.root), text=text)


def failure(done: Result) -> str:
    """The one line that a command failed with."""
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), (done.output, done.exception)
    assert done.output.count("\n") == 1, done.output
    return done.output


@pytest.fixture
def master(root: Path) -> Paths:
    """A master whose administrator has :data:`PASSWORD`."""
    (root / "password").write_text(PASSWORD)
    (root / "key").write_text(KEY)
    for file in ("password", "key"):
        (root / file).chmod(0o600)
    secrets = ["--admin-password-file", str(root / "password"), "--key-file", str(root / "key")]
    done = run("init", str(root / "m"), "--type", "master", "--node-name", "m", "--master", "127.0.0.1", *secrets)
    assert done.exit_code == 0, done.output
    return Paths(root / "m")


@pytest.fixture
def worker(master: Paths, root: Path) -> Paths:
    """A worker that has the master's state."""
    more = ["--node-name", "w", "--master", "127.0.0.1", "--key-file", str(root / "key")]
    done = run("init", str(root / "w"), "--type", "worker", *more)
    assert done.exit_code == 0, done.output
    paths = Paths(root / "w")
    with (
        closing(SecurityStore(master.security_db)) as source,
        closing(SecurityStore(paths.security_db, writable=False)) as replica,
    ):
        replica.apply_snapshot(source.snapshot())
    return paths


def edit(paths: Paths, old: str, new: str) -> None:
    text = paths.main_config.read_text()
    assert old in text
    paths.main_config.write_text(text.replace(old, new))


def make_master(paths: Paths) -> None:
    edit(paths, "<node_type>worker</node_type>", "<node_type>master</node_type>")
    assert not load_main_config(paths).cluster.is_worker


def make_alone(paths: Paths) -> None:
    text = paths.main_config.read_text()
    paths.main_config.write_text(re.sub(r"<cluster>.*</cluster>", "", text, flags=re.DOTALL))
    assert load_main_config(paths).cluster.disabled


def disable(paths: Paths) -> None:
    edit(paths, "<disabled>no</disabled>", "<disabled>yes</disabled>")
    assert load_main_config(paths).cluster.disabled


def remove(paths: Paths) -> None:
    for file in paths.security.iterdir():
        file.unlink()
    paths.security.rmdir()


def empty(paths: Paths) -> None:
    paths.security_db.write_bytes(b"")


def without_users(paths: Paths) -> None:
    paths.security_db.unlink()
    SecurityStore(paths.security_db).close()


def untouched_replica(paths: Paths) -> None:
    paths.security_db.unlink()
    SecurityStore(paths.security_db, writable=False).close()


def garbage(paths: Paths) -> None:
    paths.security_db.write_bytes(b"not a database at all " * 100)


def damage_pages(paths: Paths) -> None:
    overwrite_pages(paths.security_db)


def moved_aside(paths: Paths) -> None:
    damage_pages(paths)
    paths.security_db.rename(paths.security_db.with_name("aside"))


def drop_a_table(paths: Paths) -> None:
    with closing(sqlite3.connect(paths.security_db)) as connection:
        connection.execute("DROP TABLE changes")


def raise_version(paths: Paths) -> None:
    with closing(sqlite3.connect(paths.security_db)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")


LOSSES = [remove, empty, without_users, untouched_replica, garbage]
DAMAGES = [garbage, damage_pages, drop_a_table]


# Refusing


@pytest.mark.parametrize("lose", LOSSES)
def test_a_master_without_its_users_does_not_start(master: Paths, lose: Callable[[Paths], None]) -> None:
    lose(master)
    existed = master.security_db.exists()
    line = failure(at(master, "start"))
    for reported in (
        str(master.security_db),
        "2012",
        "backup",
        "secmon cluster promote",
        "secmon user create-defaults",
    ):
        assert reported in line
    assert master.security_db.exists() == existed
    assert str(master.security_db) in failure(at(master, "config", "check"))


@pytest.mark.parametrize("lose", LOSSES)
def test_no_daemon_of_a_master_makes_a_store(master: Paths, lose: Callable[[Paths], None]) -> None:
    lose(master)
    with pytest.raises(SecmonError, match="2012"):
        open_node(read_installation(master))
    assert not (lose is remove and master.security.exists())


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize(
    "command", [["user", "reset-password", "--generate"], ["audit", "verify"], ["cluster", "promote"]], ids=" ".join
)
def test_commands_say_that_the_users_are_lost(master: Paths, lose: Callable[[Paths], None], command: list[str]) -> None:
    lose(master)
    line = failure(at(master, *command))
    assert str(master.security_db) in line


def test_a_worker_begins_again_without_its_copy(worker: Paths) -> None:
    remove(worker)
    assert read_supervisor_settings(worker)
    node = open_node(read_installation(worker))
    assert (node.security.store_id(), worker.security.stat().st_mode & 0o7777) == ("", 0o770)
    node.security.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_stops_a_master(master: Paths, damage: Callable[[Paths], None]) -> None:
    damage(master)
    for line in (failure(at(master, "start")), failure(at(master, "config", "check"))):
        for reported in (str(master.security_db), "backup", "secmon cluster promote", "secmon user create-defaults"):
            assert reported in line
    with pytest.raises(SecmonError, match="2012"):
        open_node(read_installation(master))


@pytest.mark.parametrize("node", ["master", "worker"])
def test_a_store_of_a_newer_version_stops_any_node(node: str, request: pytest.FixtureRequest) -> None:
    paths: Paths = request.getfixturevalue(node)
    raise_version(paths)
    before, kept = paths.security_db.read_bytes(), f"security.db.version-{SCHEMA.version}-TIME"
    for line in (failure(at(paths, "start")), failure(at(paths, "config", "check"))):
        for text in (str(paths.security_db), "newer version", kept, "upgrade-secmon.md"):
            assert text in line
    assert paths.security_db.read_bytes() == before
    with pytest.raises(SecmonError, match="newer version"):
        open_node(read_installation(paths))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_set_aside(worker: Paths, damage: Callable[[Paths], None]) -> None:
    damage(worker)
    damaged = worker.security_db.read_bytes()
    with pytest.raises(SecmonError, match="secmon restart"):  # a daemon alone: others may work with the file
        open_node(read_installation(worker))
    read_supervisor_settings(worker).set_unusable_aside(SystemClock())
    assert not worker.security_db.exists()
    assert [kept.read_bytes() for kept in worker.security.glob("security.db.damaged-*")] == [damaged]
    node = open_node(read_installation(worker))
    assert node.security.store_id() == ""
    node.security.close()
    assert not read_supervisor_settings(worker).unusable


@pytest.mark.parametrize("leave", [make_master, make_alone, disable])
def test_a_copy_does_not_serve_without_its_master(worker: Paths, leave: Callable[[Paths], None]) -> None:
    assert read_supervisor_settings(worker)
    leave(worker)
    summary = read_security_summary(worker.security_db)
    assert summary is not None
    for line in (failure(at(worker, "start")), failure(at(worker, "user", "reset-password", "--generate"))):
        assert f"store {summary.store_id}, revision 1" in line
        assert "secmon cluster promote" in line
    with pytest.raises(SecmonError, match="2012"):
        open_node(read_installation(worker))


def test_a_store_that_cannot_be_opened_is_not_called_lost(master: Paths) -> None:
    master.security_db.unlink()
    master.security_db.mkdir()
    reason = security_problem(master)
    assert reason is not None
    assert "check the owner and the permissions" in reason
    assert "backup" not in reason


def test_what_is_whole_is_left_alone(master: Paths, worker: Paths) -> None:
    before = {paths: paths.security_db.read_bytes() for paths in (master, worker)}
    check_security(master, worker=False)
    check_security(worker, worker=True)
    assert {paths: paths.security_db.read_bytes() for paths in before} == before


# Taking over


@pytest.mark.parametrize("leave", [make_master, make_alone])
def test_promotion(master: Paths, worker: Paths, leave: Callable[[Paths], None]) -> None:
    tokens = Tokens(SystemClock())
    with closing(SecurityStore(master.security_db)) as origin:
        token = tokens.issue(origin.view(), authenticate(origin.view(), "admin", PASSWORD))
    with closing(SecurityStore(worker.security_db, writable=False)) as replica:
        assert tokens.verify(replica.view(), token).user == "admin"
        former = replica.position()
    leave(worker)
    done = at(worker, "cluster", "promote")
    assert done.exit_code == 0, done.output
    summary = read_security_summary(worker.security_db)
    assert summary is not None
    assert (summary.replica, summary.users, summary.revision) == (False, True, former.revision + 1)
    assert summary.store_id != former.store_id
    assert summary.store_id in done.output
    assert read_supervisor_settings(worker)
    node = open_node(read_installation(worker))
    assert authenticate(node.security.view(), "admin", PASSWORD).id == 1
    with pytest.raises(AuthenticationError):
        Tokens(SystemClock()).verify(node.security.view(), token)
    node.security.close()
    checked = at(worker, "audit", "verify")
    assert (checked.exit_code, "is whole: 1 changes, up to revision 2" in checked.output) == (0, True), checked.output
    assert "secmon cluster promote" in worker.audit_log.read_text()
    again = at(worker, "cluster", "promote")
    assert (again.exit_code, "nothing was changed" in again.output) == (0, True)


def test_a_lost_store_is_replaced_by_a_workers_copy(master: Paths, worker: Paths) -> None:
    remove(master)
    master.security.mkdir()
    with closing(sqlite3.connect(worker.security_db)) as copy:
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    master.security_db.write_bytes(worker.security_db.read_bytes())
    master.security_db.chmod(0o644)
    assert "secmon cluster promote" in failure(at(master, "start"))
    assert at(master, "cluster", "promote").exit_code == 0
    assert read_supervisor_settings(master)
    assert master.security_db.stat().st_mode & 0o7777 == 0o640


def test_a_worker_is_made_the_master_before_it_is_promoted(worker: Paths) -> None:
    said = failure(at(worker, "cluster", "promote"))
    assert f"make it the master in {worker.main_config} first (node_type and nodes), in place of 127.0.0.1" in said


def test_neither_way_out_while_the_node_runs(master: Paths) -> None:
    lock = SupervisorLock(master.root)
    lock.acquire()
    try:
        for command in (["cluster", "promote"], ["user", "create-defaults"]):
            assert "stop it: secmon stop" in failure(at(master, *command))
    finally:
        lock.release()


# Creating the default users again


@pytest.mark.parametrize("lose", [remove, empty, without_users, untouched_replica, moved_aside])
def test_creating_the_default_users_again(master: Paths, lose: Callable[[Paths], None]) -> None:
    assert at(master, "user", "reset-password", "--generate").exit_code == 0  # a line in the audit log
    lose(master)
    done = at(master, "user", "create-defaults")
    passwords = dict(re.findall(r"^  (\w+) +(\S+)$", done.output, re.M))
    assert set(passwords) == {"admin", "dashboard"}, done.output
    modes = [path.stat().st_mode & 0o7777 for path in (master.security, master.security_db)]
    assert modes == [0o770, 0o640]
    assert read_supervisor_settings(master)
    node = open_node(read_installation(master))
    assert all(authenticate(node.security.view(), name, word) for name, word in passwords.items())
    node.security.close()
    checked = at(master, "audit", "verify")
    assert (checked.exit_code, "was replaced" in checked.output) == (0, True), checked.output


def test_existing_users_are_not_replaced(master: Paths, worker: Paths) -> None:
    before = master.security_db.read_bytes()
    assert "holds users; nothing was changed" in failure(at(master, "user", "create-defaults"))
    assert master.security_db.read_bytes() == before
    damage_pages(master)
    assert "move it aside first" in failure(at(master, "user", "create-defaults"))
    assert "this node is a worker" in failure(at(worker, "user", "create-defaults"))


def test_the_audit_log_is_on_the_master(worker: Paths) -> None:
    line = failure(at(worker, "audit", "verify"))
    assert line == "Error: this node is a worker: the audit log is on the master, 127.0.0.1\n"
