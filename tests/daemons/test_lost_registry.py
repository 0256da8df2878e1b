"""A master that has lost its registry of agents says so, and how to go on."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from secmon.common.agents.entries import entries
from secmon.common.agents.keysfile import KeysFile
from secmon.common.agents.registry import New, add
from secmon.common.agents.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.cli import main
from secmon.daemons.plan import check_node, plan_node


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def node(root: Path) -> Paths:
    """A node that stands alone, with an agent and a key file."""
    (root / "password").write_text("A-Secret-Word-77")
    (root / "password").chmod(0o600)
    done = run("init", str(root / "n"), "--admin-password-file", str(root / "password"))
    assert done.exit_code == 0, done.output
    paths = Paths(root / "n")
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        add(connection, New(name="web", groups=("default",)), now=1)
    KeysFile(store, paths, SystemClock()).poll()
    keys = KeysFile(store, paths, SystemClock())
    keys.poll()
    keys.poll()
    store.close()
    assert " web any " in paths.client_keys.read_text()
    return paths


def lose(paths: Paths) -> None:
    for file in paths.agents_db.parent.glob("agents.db*"):
        file.unlink()


def test_a_lost_registry_stops_the_start(node: Paths) -> None:
    assert plan_node(node).daemons
    lose(node)
    with pytest.raises(SecmonError) as caught:
        plan_node(node)
    assert caught.value.code == 2012
    assert "names 1 agents" in caught.value.message
    assert "secmon agents rebuild" in check_node(node)[0]


def test_the_key_file_is_taken_on_demand(node: Paths) -> None:
    lose(node)
    done = run("agents", "rebuild", "--root", str(node.root))
    assert (done.exit_code, done.output.split(" from ")[0]) == (0, "1 agents taken")
    assert plan_node(node).daemons
    store = AgentStore(node.agents_db)
    with store.read() as connection:
        assert [(one.id, one.name, one.group) for one in entries(connection)] == [(1, "web", None)]
    store.close()


def test_a_registry_that_is_there_is_left_alone(node: Paths) -> None:
    done = run("agents", "rebuild", "--root", str(node.root))
    assert done.exit_code == 1
    assert "nothing was changed" in done.output
