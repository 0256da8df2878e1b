"""A master that has lost its registry of agents says so, and how to go on."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.agents.registry.entries import entries
from secmon.agents.registry.key_file import MasterKeyFile, written_copy
from secmon.agents.registry.registry import New, add, remove
from secmon.agents.registry.store import AgentStore
from secmon.cli import main
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.supervisor_settings import inspect_installation, read_supervisor_settings
from tests.security.store.damage import overwrite_pages


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def node(root: Path) -> Paths:
    """A node without a cluster, with an agent and a key file."""
    (root / "password").write_text("A-Secret-Word-77")
    (root / "password").chmod(0o600)
    done = run("init", str(root / "n"), "--admin-password-file", str(root / "password"))
    assert done.exit_code == 0, done.output
    paths = Paths(root / "n")
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        add(connection, New(name="web", groups=("default",)), now=1)
    MasterKeyFile(store, paths, SystemClock()).poll()
    keys = MasterKeyFile(store, paths, SystemClock())
    keys.poll()
    keys.poll()
    store.close()
    assert " web any " in paths.client_keys.read_text()
    return paths


def lose(paths: Paths) -> None:
    for file in paths.agents_db.parent.glob("agents.db*"):
        file.unlink()


def test_a_lost_registry_stops_the_start(node: Paths) -> None:
    assert read_supervisor_settings(node).daemons
    lose(node)
    with pytest.raises(SecmonError) as caught:
        read_supervisor_settings(node)
    assert caught.value.code == 2012
    assert "names 1 agents" in caught.value.message
    assert "secmon agents rebuild" in inspect_installation(node).problems[0]


def empty(paths: Paths) -> None:
    lose(paths)
    paths.agents_db.touch()


def of_nobody(paths: Paths) -> None:
    """As if a new store had been made in the place of the lost one."""
    lose(paths)
    store = AgentStore(paths.agents_db)
    store.revision()
    store.close()


def damage_pages(paths: Paths) -> None:
    overwrite_pages(paths.agents_db)


def drop_a_table(paths: Paths) -> None:
    with closing(sqlite3.connect(paths.agents_db)) as connection:
        connection.execute("DROP TABLE agent_groups")


LOSSES = [lose, empty, of_nobody, damage_pages, drop_a_table]


@pytest.mark.parametrize("loss", LOSSES)
def test_no_group_is_lost_without_a_word(node: Paths, loss: Callable[[Paths], None]) -> None:
    loss(node)
    with pytest.raises(SecmonError) as caught:
        read_supervisor_settings(node)
    assert caught.value.code == 2012
    for reported in (str(node.agents_db), "backup", "worker's copy", "secmon agents rebuild"):
        assert reported in caught.value.message


def test_a_registry_may_be_unused(node: Paths) -> None:
    """An operator may put a key file there before the first start."""
    of_nobody(node)
    written_copy(node).unlink()
    assert read_supervisor_settings(node).daemons


def test_a_registry_may_have_lost_its_last_agent(node: Paths) -> None:
    store = AgentStore(node.agents_db)
    with store.write() as connection:
        remove(connection, [1])
    store.close()
    assert read_supervisor_settings(node).daemons


@pytest.mark.parametrize("name", ["tasks_db", "inventory_db"])
def test_damaged_tasks_and_inventory_are_set_aside(node: Paths, name: str) -> None:
    file: Path = getattr(node, name)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"no database" * 1000)
    checked = run("config", "check", "--root", str(node.root))
    assert checked.exit_code == 0
    assert f"Warning: {file} is damaged (file is not a database): secmon restart renames it" in checked.stderr
    settings = read_supervisor_settings(node)
    assert list(settings.unusable) == [file]
    settings.set_unusable_aside(SystemClock())
    assert len(list(file.parent.glob(f"{file.name}.damaged-*"))) == 1
    assert not read_supervisor_settings(node).unusable


@pytest.mark.parametrize("loss", LOSSES)
def test_the_key_file_is_taken_on_demand(node: Paths, loss: Callable[[Paths], None]) -> None:
    loss(node)
    existed = node.agents_db.exists()
    done = run("agents", "rebuild", "--root", str(node.root))
    assert done.exit_code == 0, done.output
    assert "1 agents taken from" in done.output
    assert len(list(node.agents_db.parent.glob("agents.db.damaged-*"))) == existed
    assert read_supervisor_settings(node).daemons
    store = AgentStore(node.agents_db)
    with store.read() as connection:
        assert [(one.id, one.name, one.group) for one in entries(connection)] == [(1, "web", None)]
    store.close()


def test_a_registry_that_is_there_is_left_alone(node: Paths) -> None:
    done = run("agents", "rebuild", "--root", str(node.root))
    assert done.exit_code == 1
    assert "nothing was changed" in done.output
