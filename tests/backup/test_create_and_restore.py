"""A backup of an installation that is in use, and what is restored from it."""

import gzip
import io
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyrage import x25519

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.backup.create import create_backup
from secmon.backup.encryption import encrypt, public_key_seal, read_head
from secmon.backup.fault import BackupError
from secmon.backup.restore import Restored, restore_backup
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.daemons.install import install
from secmon.daemons.supervisor_lock import AlreadyRunning, SupervisorLock
from secmon.security.audit_check import check_end, check_store, verify
from secmon.security.store.security_store import SecurityStore
from tests.backup.test_archive import about, end, member, tar
from tests.filelimit import file_size_limit
from tests.manual_clock import ManualClock
from tests.security.audited import make
from tests.waiting import LIMIT_SECONDS

KEY = x25519.Identity.generate()
PUBLIC = str(KEY.to_public())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """An installation with some of everything; tests do not change it but for rows that they add."""
    paths = Paths(tmp_path_factory.mktemp("source") / "node")
    install(paths, cluster=None)
    add_agents(paths, ["web-1", "web-2"])
    files = {
        "etc/shared/web/agent.conf": "<agent_config/>\n",
        "etc/shared/web/notes-wal": "a file of the operator\n",
        "etc/client.keys": "001 web-1 any key\n",
        "queue/rids/sender_counter": "7:3:",
        "queue/sockets/left": "",
        "queue/events/000.events": "in flight",
        "logs/ossec.log": "log\n",
        "queue/db/agents.db.damaged-20260101000000": "old",
    }
    for name, text in files.items():
        (paths.root / name).parent.mkdir(parents=True, exist_ok=True)
        (paths.root / name).write_text(text)
    (paths.etc / "link").symlink_to("/etc/passwd")
    store = SecurityStore(paths.security_db)
    make(store, paths.audit_log, "operators")
    store.close()
    return paths


def add_agents(paths: Paths, names: list[str]) -> None:
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        for name in names:
            registry.add(connection, New(name=name, groups=("web",)), now=1)
    store.close()


def agents(paths: Paths) -> list[tuple[int, str, str, str | None]]:
    store = AgentStore(paths.agents_db)
    with store.read() as connection:
        found = [(one.id, one.name, one.internal_key, one.group) for one in entries(connection)]
    store.close()
    return found


def security(paths: Paths) -> str:
    store = SecurityStore(paths.security_db, create=False)
    try:
        return store.digest()
    finally:
        store.close()


def save(paths: Paths, target: Path, *, without: tuple[str, ...] = ()) -> Path:
    create_backup(
        paths,
        target,
        public_key_seal(PUBLIC),
        without=without,
        clock=SystemClock(),
        progress=lambda *_: None,
    )
    return target


def load(file: Path | io.BytesIO, root: Path, *, key: x25519.Identity = KEY, replace: bool = False) -> Restored:
    archive = io.BytesIO(file.read_bytes()) if isinstance(file, Path) else file
    read_head(archive)
    return restore_backup(archive, key, Paths(root), replace=replace, clock=ManualClock(), progress=lambda *_: None)


@pytest.fixture(scope="module")
def saved(installed: Paths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(installed, tmp_path_factory.mktemp("backups") / "file")


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    found = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in found}


def test_everything_is_there_on_another_host(installed: Paths, saved: Path, tmp_path: Path) -> None:
    restored = Paths(tmp_path / "elsewhere")
    done = load(saved, restored.root)
    assert done.aside is None
    assert agents(restored) == agents(installed)
    assert security(restored) == security(installed)
    before, after = tree(installed.root), tree(restored.root)
    ours = ("queue/sockets", "queue/events", "logs/ossec", "queue/db", "api/configuration/security/security.db")
    expected = {name: found for name, found in before.items() if not name.startswith(ours)}
    expected["queue/rids/sender_counter"] = (0o640, b"100007:3:")
    kept = {name: found for name, found in after.items() if not name.startswith(ours)}
    kept["queue/rids/sender_counter"] = (0o640, kept["queue/rids/sender_counter"][1])
    assert kept == expected
    modes = {str(path.relative_to(installed.root)): path.stat().st_mode for path in installed.root.rglob("*/")}
    for name, mode in modes.items():
        if (restored.root / name).is_dir() and name != "etc/shared/web":
            assert (restored.root / name).stat().st_mode == mode, name
    assert not (restored.etc / "link").exists()
    assert not list(restored.root.glob(".restore-*"))


def test_a_backup_is_for_its_owner_alone_and_leaves_no_copy(installed: Paths, saved: Path) -> None:
    assert saved.stat().st_mode & 0o777 == 0o600
    assert b"SQLite" not in saved.read_bytes()
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
    assert list((installed.root / "tmp").iterdir()) == []


def test_all_stores_and_the_audit_log_are_of_one_moment(installed: Paths, tmp_path: Path) -> None:
    """Each round of the writer adds a role, and then an agent: what is restored has as many of both, or one less."""
    stop, started = threading.Event(), threading.Event()
    first = len(agents(installed))

    def write() -> None:
        store = SecurityStore(installed.security_db)
        number = 0
        while not stop.is_set():
            make(store, installed.audit_log, f"role-{number}")
            add_agents(installed, [f"host-{number}"])
            number += 1
            if number == 3:
                started.set()
        store.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert started.wait(LIMIT_SECONDS)
        save(installed, tmp_path / "file")
    finally:
        stop.set()
        writer.join()
    restored = Paths(tmp_path / "n")
    load(tmp_path / "file", restored.root)
    report = verify(restored.audit_log)
    store = SecurityStore(restored.security_db, create=False)
    position, end = store.position(), store.audit_end()
    roles = [role.name for role in store.view().roles.values() if role.name.startswith("role-")]
    store.close()
    check_end(report, position.store_id, position.revision)
    check_store(report, position.revision, end, [])
    assert report.problem is None
    assert report.revision == position.revision
    assert len(roles) >= 3
    assert len(roles) - 1 <= len(agents(restored)) - first <= len(roles)


def test_parts_may_be_left_out(installed: Paths, tmp_path: Path) -> None:
    advisories = installed.advisories / "debian-12.db"
    advisories.write_bytes(b"advisories")
    try:
        load(save(installed, tmp_path / "all"), tmp_path / "whole")
        load(save(installed, tmp_path / "some", without=("advisories",)), tmp_path / "small")
    finally:
        advisories.unlink()
    assert Paths(tmp_path / "whole").advisories.joinpath("debian-12.db").read_bytes() == b"advisories"
    assert list(Paths(tmp_path / "small").advisories.iterdir()) == []


def test_a_full_disk_leaves_no_file(installed: Paths, tmp_path: Path) -> None:
    for limit in (20_000, 200_000):  # while the stores are copied, and while the backup is written
        with file_size_limit(limit), pytest.raises((OSError, BackupError)):
            save(installed, tmp_path / "file")
        assert list(tmp_path.iterdir()) == []
        assert list((installed.root / "tmp").iterdir()) == []


def test_no_file_is_replaced(installed: Paths, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        save(installed, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_what_a_killed_process_has_left_is_removed(installed: Paths, tmp_path: Path) -> None:
    left = installed.root / "tmp/.backup-0123"
    left.mkdir()
    (left / "security.db").write_text("secret")
    (tmp_path / "file.partial").write_text("half")
    save(installed, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert not left.exists()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    paths = Paths(tmp_path_factory.mktemp("second") / "node")
    install(paths, cluster=None)
    return paths


@pytest.fixture
def other(second: Paths) -> Iterator[Paths]:
    """Another installation; it is as it was after the test."""
    before = tree(second.root)
    yield second
    assert tree(second.root) == before
    assert not list(second.root.glob(".restore-*"))


def test_what_is_refused_replaces_nothing(saved: Path, other: Paths, tmp_path: Path) -> None:
    data = saved.read_bytes()
    for bad in (data[:-1], data[: len(data) // 2], data[:300]):
        with pytest.raises(BackupError):
            load(io.BytesIO(bad), other.root, replace=True)
    with pytest.raises(BackupError, match="the key does not open"):
        load(saved, other.root, key=x25519.Identity.generate(), replace=True)
    with pytest.raises(BackupError, match="holds an installation"):
        load(saved, other.root)
    with file_size_limit(20_000), pytest.raises(OSError):
        load(saved, other.root, replace=True)
    lock = SupervisorLock(other.root)
    lock.acquire()
    try:
        with pytest.raises(AlreadyRunning):
            load(saved, other.root, replace=True)
    finally:
        lock.release()
    with pytest.raises(BackupError):
        load(io.BytesIO(data[:-1]), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_failure_while_it_is_put_in_place_is_undone(
    saved: Path, other: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, names = os.rename, iter(range(100))

    def fails(source: Path, target: Path) -> None:
        if next(names) == 15:  # some of what is new is in place
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(OSError, match="Input/output error"):
        load(saved, other.root, replace=True)


def test_what_could_not_start_is_refused(other: Paths) -> None:
    for members, reason in (
        ([member("etc/x")], "no etc/ossec.conf"),
        ([member("etc/ossec.conf", b"<ossec_config><remote>")], "could start"),
        ([member("etc/x"), member("etc/x/y")], "as a file and as a folder"),
        ([member("etc/rules/y/z"), member("etc/rules/y")], "as a file and as a folder"),
    ):
        size = sum(len(data) for _, data in members)
        plain = gzip.compress(tar(about(), *members, end(len(members), size)))
        file = io.BytesIO()
        encrypt(io.BytesIO(plain), file, public_key_seal(PUBLIC))
        file.seek(0)
        with pytest.raises(BackupError, match=reason):
            load(file, other.root, replace=True)


def test_what_was_there_is_kept_aside(installed: Paths, saved: Path, second: Paths, tmp_path: Path) -> None:
    paths = Paths(shutil.copytree(second.root, tmp_path / "node"))
    mine = security(paths)
    done = load(saved, paths.root, replace=True)
    assert agents(paths)[:2] == agents(installed)[:2]
    assert done.aside is not None
    assert security(Paths(done.aside)) == mine
    assert done.aside.stat().st_mode & 0o777 == 0o700
    later = save(paths, tmp_path / "later")
    load(later, tmp_path / "again")
    assert not list((tmp_path / "again").glob("before-*"))


def test_a_kill_while_it_is_written_leaves_no_file_of_the_name(installed: Paths, tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from tests.backup.test_create_and_restore import *\n"
        "create_backup(Paths(Path(sys.argv[1])), Path(sys.argv[2]), public_key_seal(PUBLIC), without=(),"
        " clock=SystemClock(), progress=lambda step, *_: os.kill(os.getpid(), 9) if step == 'read' else None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(installed.root), str(tmp_path / "file")])
    assert done.returncode == -9
    assert [path.name for path in tmp_path.iterdir()] == ["file.partial"]
    save(installed, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert list((installed.root / "tmp").iterdir()) == []
