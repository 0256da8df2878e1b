"""First groups of agents."""

from hashlib import md5
from pathlib import Path

from secmon.agents.groups.first_groups import assign_first_groups
from secmon.agents.registry.registry import New, add, find
from secmon.agents.registry.store import AgentStore
from secmon.common.paths import Paths


def test_first_groups(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    store = AgentStore(paths.agents_db, durable=False)
    for group in ("default", "linux", "unbuilt"):
        (paths.shared / group).mkdir(parents=True)
        if group != "unbuilt":
            (paths.shared / group / "merged.mg").write_text(f"#{group}\n")
    linux = md5(b"#linux\n").hexdigest()
    with store.write() as connection:
        add(connection, New(name="new"), now=1)
        add(connection, New(name="has", groups=("web", "db")), now=1)
        add(connection, New(name="guessed"), now=1)
    assert assign_first_groups(store, paths, {1: linux, 2: linux, 7: "x"}) == {1: "default", 2: "web,db"}
    assert assign_first_groups(store, paths, {3: linux, 1: linux}, guess=True) == {3: "linux", 1: "default"}
    with store.read() as connection:
        groups = [entry.group for number in (1, 2, 3) if (entry := find(connection, number))]
    assert groups == ["default", "web,db", "linux"]
    assert assign_first_groups(store, paths, {}, guess=True) == {}
    store.close()
