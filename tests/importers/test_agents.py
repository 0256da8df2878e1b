"""Taking over another manager's agents: all of it or nothing, and twice is once."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import verify
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.sqlite.foreign import ForeignConnection
from secmon.daemons.installation_files import create_installation_files
from secmon.importers.agents import Report, import_agents, read_source
from tests.importers.old_manager import KEY, OldManager
from tests.manual_clock import ManualClock


class Here:
    """A new installation."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root)
        create_installation_files(self.paths)
        self.store = AgentStore(self.paths.agents_db, durable=False)

    def take(self, old: OldManager, *, dry_run: bool = False) -> Report:
        return import_agents(self.store, read_source(old.root), self.paths, ManualClock(), dry_run=dry_run)

    def lines(self) -> list[str]:
        with self.store.read() as connection:
            assert verify(connection)
            return [f"{one.line} {one.group} {one.date_add}" for one in entries(connection)]

    def files(self) -> dict[str, str]:
        found = sorted(self.paths.shared.rglob("*"))
        return {str(one.relative_to(self.paths.shared)): one.read_text() for one in found if one.is_file()}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    here = Here(tmp_path / "new")
    yield here
    here.store.close()


@pytest.fixture
def old(tmp_path: Path) -> OldManager:
    old = OldManager(tmp_path / "old")
    old.agent(1, "web-01", groups=["default", "linux"], added=5000)
    old.agent(7, "db-01", address="10.0.0.0/8", groups=["web"])
    old.agent(9, "never")
    old.line(f"003 !gone any {KEY}")
    old.file("linux/agent.conf", "<agent_config>linux</agent_config>\n")
    old.file("linux/extra.txt", "more\n")
    (old.root / "queue/rids/sender_counter").write_text("12:345:")
    return old


def reported(report: Report, *results: str) -> list[str]:
    return [str(line) for line in report.lines if line.result in results]


def test_a_full_import_and_a_repetition(here: Here, old: OldManager) -> None:
    report = here.take(old)
    assert report.written
    assert reported(report, "warning", "dropped", "refused") == [
        "warning    group web: agents are in it but it has no folder: one is created"
    ]
    assert here.lines() == [
        f"001 web-01 any {KEY} default,linux 5000",
        f"007 db-01 10.0.0.0/8 {KEY} web 1000",
        f"009 never any {KEY} None 1000",
    ]
    with here.store.read() as connection:
        assert [(one.id, one.name) for one in tombstones(connection)] == [(3, "gone")]
    assert here.files() | {"web/agent.conf": "", "agent-template.conf": ""} == {
        "agent-template.conf": "",
        "default/agent.conf": "<agent_config/>\n",
        "linux/agent.conf": "<agent_config>linux</agent_config>\n",
        "linux/extra.txt": "more\n",
        "web/agent.conf": "",
    }
    assert (here.paths.counters / "sender_counter").read_text() == "12:345:"
    again = here.take(old)
    assert (again.written, set(again.counts())) == (False, {"present"})
    with here.store.write() as connection:
        assert registry.add(connection, New(name="next"), now=1).entry.id == 10


def test_a_dry_run_reports_the_same_and_writes_nothing(here: Here, old: OldManager) -> None:
    before = here.files()
    dry = here.take(old, dry_run=True)
    assert (dry.written, here.lines(), here.files()) == (False, [], before)
    assert here.take(old).lines == dry.lines


def test_a_conflict_stops_the_import(here: Here, old: OldManager) -> None:
    with here.store.write() as connection:
        registry.add(connection, New(name="other", id=7), now=1)
        registry.add(connection, New(name="never"), now=1)
    folder = here.paths.shared / "linux"
    folder.mkdir()
    (folder / "extra.txt").write_text("mine\n")
    old.line("nonsense")
    before = here.files(), here.lines()
    report = here.take(old)
    assert not report.written
    assert [line.partition(": ")[0].split()[1:3] for line in reported(report, "refused")] == [
        ["agent", str(old.root / "etc/client.keys")],
        ["file", "linux/extra.txt"],
        ["agent", "007"],
        ["agent", "009"],
    ]
    assert (here.files(), here.lines()) == before


def test_existing_agents_without_groups_get_theirs(here: Here, old: OldManager) -> None:
    with here.store.write() as connection:
        registry.add(connection, New(name="web-01", id=1, key=KEY), now=1)
        registry.add(connection, New(name="db-01", id=7, key=KEY, groups=("mine",)), now=1)
        registry.add(connection, New(name="never", id=9, key="x"), now=1)
        registry.remove(connection, [9])
    report = here.take(old)
    assert reported(report, "dropped") == [
        "dropped    groups 007: it is in mine here, not in web",
        "dropped    agent 009 never: never with this id was removed here",
    ]
    assert [one.split()[4] for one in here.lines()] == ["default,linux", "mine"]


def test_files_are_removed_again_when_the_store_fails(here: Here, old: OldManager) -> None:
    before = here.files()
    with here.store.write() as connection:
        connection.execute(text("CREATE TRIGGER full BEFORE INSERT ON removed BEGIN SELECT RAISE(ABORT, 'full'); END"))
    with pytest.raises(Exception, match="full"):
        here.take(old)
    assert (here.files(), here.lines()) == (before, [])
    assert not (here.paths.counters / "sender_counter").exists()


def test_without_a_database(here: Here, old: OldManager) -> None:
    old.database.unlink()
    assert "warning    groups" in reported(here.take(old, dry_run=True), "warning")[0]
    folder = old.root / "queue/agent-groups"
    folder.mkdir()
    (folder / "001").write_text("default,linux\n")
    (old.root / "queue/agents-timestamp").write_text("001 web-01 any 2024-05-06 07:08:09\n")
    here.take(old)
    assert [one.split()[4] for one in here.lines()] == ["default,linux", "None", "None"]
    assert int(here.lines()[0].split()[5]) > 1_700_000_000


@pytest.mark.parametrize("damage", ["no keys", "no data base", "another data base"])
def test_damage(here: Here, old: OldManager, damage: str) -> None:
    if damage == "no keys":
        (old.root / "etc/client.keys").unlink()
    elif damage == "no data base":
        old.database.write_bytes(b"not a data base, though long enough to be taken for one" * 100)
    else:
        old.database.write_bytes(here.paths.agents_db.read_bytes() if here.paths.agents_db.exists() else b"")
    with pytest.raises(SecmonError, match="1006"):
        here.take(old)


def test_groups_that_cannot_be(here: Here, old: OldManager) -> None:
    old.agent(20, "odd", groups=["a b"])
    old.agent(21, "many", groups=[f"g{number}" for number in range(129)])
    old.file("we!rd/agent.conf", "x")
    (old.root / "etc/shared/linux/deep").mkdir()
    report = here.take(old)
    assert reported(report, "refused", "dropped") == [
        "dropped    file linux/deep: not a file",
        "dropped    group we!rd: no group can be called so",
        "refused    groups 020: no group can be called a b",
        "refused    groups 021: more than 128 groups",
    ]
    shutil.rmtree(old.root)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (
            "ALTER TABLE agent RENAME TO real; CREATE VIEW agent AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL "
            """SELECT id + 1 FROM n) SELECT id, 0 AS date_add, 'x' AS "group" FROM n""",
            "table agent is missing",
        ),
        ("ALTER TABLE belongs ADD COLUMN big AS (printf('%.*c', 900000, 'x'))", "belongs has computed columns"),
        ("UPDATE agent SET \"group\" = printf('%.*c', 2000000, 'x')", "too big"),
    ],
)
def test_databases_with_amplification(here: Here, old: OldManager, statements: str, reason: str) -> None:
    with closing(sqlite3.connect(old.database)) as connection:
        connection.executescript(statements)
        connection.commit()
    with pytest.raises(SecmonError, match=reason):
        here.take(old)


@pytest.mark.parametrize("name", ["etc/client.keys", "queue/agents-timestamp", "queue/rids/sender_counter"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_files_without_end(here: Here, old: OldManager, name: str, kind: str) -> None:
    path = old.root / name
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(SecmonError, match="not a file"):
        here.take(old)


@pytest.mark.parametrize("name", ["etc", "etc/shared", "etc/client.keys", "queue/rids"])
def test_links_lead_nowhere(here: Here, old: OldManager, tmp_path: Path, name: str) -> None:
    """Root reads the folder, to which the user of the other manager may write."""
    (old.root / "queue/rids").mkdir(parents=True, exist_ok=True)
    (old.root / "queue/rids/sender_counter").write_text("1:1")
    os.rename(old.root / name, tmp_path / "roots")
    (old.root / name).symlink_to(tmp_path / "roots")
    before = here.files()
    with pytest.raises(SecmonError, match=f"{old.root}/"):
        here.take(old)
    assert here.files() == before


def test_a_file_of_a_group_without_end(here: Here, old: OldManager) -> None:
    os.truncate(old.root / "etc/shared/linux/extra.txt", 1 << 40)
    before = here.files()
    with pytest.raises(SecmonError, match="more than 64 MiB"):
        here.take(old)
    assert here.files() == before


def test_pages_that_are_part_of_many_rows(here: Here, old: OldManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of a database is bounded, not only its size: see ``foreign.MAX_BYTES``."""
    monkeypatch.setattr(ForeignConnection, "left", 10)
    with pytest.raises(SecmonError, match="its tables have more than"):
        here.take(old)


@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_links_made_meanwhile_lead_nowhere(here: Here, old: OldManager, tmp_path: Path, swapped: str) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    (roots / "extra.txt").write_text("root's own secret")
    source = read_source(old.root)
    folder = old.root / "etc/shared/linux"
    if swapped == "folder":
        folder.rename(tmp_path / "aside")
        folder.symlink_to(roots)
    else:
        (folder / "extra.txt").unlink()
        (folder / "extra.txt").symlink_to(roots / "extra.txt")
    before = here.files()
    with pytest.raises(OSError):
        import_agents(here.store, source, here.paths, ManualClock())
    assert here.files() == before
