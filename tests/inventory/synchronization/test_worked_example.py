"""The example of agent-data.md 2.7, byte for byte: files of an agent, and a manager's copy that differs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.inventory.changes import Changes
from secmon.inventory.schema import fim_entries, synchronizations
from secmon.inventory.synchronization.messages import synchronize
from tests.inventory.handled_messages import HandledMessages, message_of
from tests.inventory.synchronization.model_agent import ModelAgent, sha1

FOLDER = "/srv/demo/"
WHOLE = "553bfb894378f725abfe62409f4b79ebab48aa2c"
FILES = {
    "alpha": (4, 1, "538974771b93ca45ea24254fe016187822aa70ef", "5bbf5a52328e7439ae6e719dfe712200"),
    "bravo": (4, 2, "f13f518249ac594d9dacde1f75315fc599b39c4e", "c193497a1a06b2c72230e6146ff47080"),
    "charlie": (6, 3, "1e707e9da78f6ee0845924acb8556482f45a66b5", "febe6995bad457991331348f7b9c85fa"),
    "delta": (5, 4, "7570e94a7c01b816f9d2e9d8ffe65399cde9a07c", "77ffdb827341e578959bfcabde3789d8"),
    "echo": (5, 5, "881a316dfaf8bb81cb05d92f332684210b6b05b2", "014835e36358e38c7f7897d6571e4529"),
}
"""Size, number, checksum and MD5."""


def state(name: str, checksum: str = "") -> dict[str, Any]:
    size, number, own, md5 = FILES.get(name, (0, 0, "", ""))
    return {
        "attributes": {
            "attributes": "", "checksum": checksum or own, "gid": "0", "group_name": "root", "hash_md5": md5,
            "inode": 1000 + number, "mtime": 1700000000 + number, "perm": "rw-r--r--", "size": size, "type": "file",
            "uid": "0", "user_name": "root",
        },
        "index": FOLDER + name,
        "timestamp": 1700000000 + number,
    }  # fmt: skip


class Manager(HandledMessages):
    def send(self, body: str) -> list[str]:
        """Deliver a message; returns the answers."""
        return [text for _, text in self.handle(message_of("fim_file", body)).answers]

    def files(self) -> dict[str, str]:
        return {row["file"].removeprefix(FOLDER): row["checksum"] for row in self.rows(fim_entries)}

    def record(self) -> dict[str, Any]:
        (found,) = self.rows(synchronizations)
        return found


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path, synchronize)
    for name, checksum in [
        ("alpha", ""), ("delta", ""), ("echo", ""), ("bravo", "34209dd982446817d65d2fc6fc92ddad3c582f4e"),
        ("bravo.bak", sha1("gone2")), ("zulu", sha1("gone")),
    ]:  # fmt: skip
        body = json.dumps({"component": "fim_file", "type": "state", "data": state(name, checksum)})
        assert made.send(body) == []
    yield made
    made.store.close()


def answer(verdict: str, begin: str, end: str) -> str:
    return f'fim_file dbsync {verdict} {{"begin":"{FOLDER}{begin}","end":"{FOLDER}{end}","id":1700000100}}'


def check(kind: str, begin: str, end: str, checksum: str, tail: str = "", id_: int = 1700000100) -> str:
    data = {"begin": FOLDER + begin, "end": FOLDER + end, "checksum": checksum, "id": id_}
    data |= {"tail": FOLDER + tail} if tail else {}
    return json.dumps({"component": "fim_file", "data": data, "type": f"integrity_check_{kind}"})


def test_every_message(manager: Manager) -> None:
    assert manager.send(check("global", "alpha", "echo", WHOLE)) == [answer("checksum_fail", "alpha", "echo")]
    assert set(manager.files()) == {"alpha", "bravo", "bravo.bak", "delta", "echo"}
    assert manager.record() == {
        "component": "fim_file", "last_attempt": 1700000100, "last_completion": 0, "n_attempts": 1, "n_completions": 0,
        "last_manager_checksum": "", "last_agent_checksum": WHOLE,
    }  # fmt: skip
    left = check("left", "alpha", "bravo", "97350ea5d7b2fd49cd57329145a1af04aef627e3", "charlie")
    assert manager.send(left) == [answer("checksum_fail", "alpha", "bravo")]
    assert set(manager.files()) == {"alpha", "bravo", "delta", "echo"}
    right = check("right", "charlie", "echo", "dd9c31959080ef75787fa5697fac230c2c4aabfc")
    assert manager.send(right) == [answer("checksum_fail", "charlie", "echo")]
    assert manager.send(check("left", "alpha", "alpha", "8ee70405aeadfc6d554fb3bac95a38fff1a60bc6", "bravo")) == []
    one = check("right", "bravo", "bravo", "ae0a22eb3404636166accfee0c6c39a7953493b0")
    assert manager.send(one) == [answer("checksum_fail", "bravo", "bravo")]
    missing = check("left", "charlie", "charlie", "799a808349e02c3b17dbefe9561bc165605928f3", "delta")
    assert manager.send(missing) == [answer("no_data", "charlie", "charlie")]
    assert manager.send(check("right", "delta", "echo", "4a5c78788f99dd127b9c094715d92ff5a6fa34e0")) == []
    for name in ("bravo", "charlie"):
        assert manager.send(json.dumps({"component": "fim_file", "type": "state", "data": state(name)})) == []
    assert manager.send(check("global", "alpha", "echo", WHOLE, id_=1700000400)) == []
    assert manager.files() == {name: values[2] for name, values in FILES.items()}
    assert manager.record() == {
        "component": "fim_file", "last_attempt": 1700000400, "last_completion": 1700000400, "n_attempts": 2,
        "n_completions": 1, "last_manager_checksum": WHOLE, "last_agent_checksum": WHOLE,
    }  # fmt: skip


def test_the_model_of_the_agent_sends_these_messages(manager: Manager) -> None:
    agent = ModelAgent("fim_file", {FOLDER + name: state(name) for name in FILES})
    waiting, sent = agent.begin(1700000100), 0
    assert waiting == [check("global", "alpha", "echo", WHOLE)] or json.loads(waiting[0])["data"]["checksum"] == WHOLE
    while waiting:
        answers = manager.send(waiting.pop(0))
        sent += 1
        waiting += [message for text in answers for message in agent.answered(text)]
    assert sent == 9
    assert manager.send(agent.begin(1700000400)[0]) == []
    assert manager.files() == {name: values[2] for name, values in FILES.items()}


def test_an_equal_table_is_not_read_again(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ModelAgent("fim_file", {FOLDER + name: state(name) for name in FILES})
    waiting = agent.begin(1)
    while waiting:
        waiting += [message for text in manager.send(waiting.pop(0)) for message in agent.answered(text)]
    manager.send(agent.begin(2)[0])

    def unread(*_: object) -> None:
        raise AssertionError("rows are read")

    with monkeypatch.context() as patch:
        patch.setattr("secmon.inventory.synchronization.checks._compare", unread)
        assert manager.send(agent.begin(3)[0]) == []
        assert (manager.record()["n_attempts"], manager.record()["n_completions"]) == (3, 2)
        manager.send(agent.state(FOLDER + "echo"))
        with pytest.raises(AssertionError, match="rows are read"):
            manager.send(agent.begin(4)[0])


def test_a_row_that_changes_twice_voids_the_checksum(manager: Manager) -> None:
    """An agent's table may come back to what it was, while the manager has lost the second change."""
    agent = ModelAgent("fim_file", {FOLDER + name: state(name) for name in FILES})
    for name in FILES:
        manager.send(agent.state(FOLDER + name))
    manager.send(agent.begin(1)[0])
    agent.rows[FOLDER + "echo"] = state("echo", "other")
    manager.send(agent.state(FOLDER + "echo"))
    agent.rows[FOLDER + "echo"] = state("echo")
    assert len(manager.send(agent.begin(2)[0])) == 1


def test_every_deletion_voids_the_checksum(manager: Manager) -> None:
    agent = ModelAgent("fim_file", {FOLDER + name: state(name) for name in FILES})
    manager.send(agent.state(FOLDER + "alpha"))

    def voided() -> bool:
        found = not manager.record()["last_manager_checksum"]
        for name in FILES:
            manager.send(agent.state(FOLDER + name))
        manager.send(check("global", "alpha", "echo", WHOLE))
        assert manager.record()["last_manager_checksum"] == WHOLE
        return found

    manager.send(ModelAgent("fim_file").begin(7)[0])
    assert voided()
    manager.send(check("global", "alpha", "delta", WHOLE))  # the same checksum, and a smaller range
    assert voided()
    manager.send(check("left", "alpha", "alpha", WHOLE, "charlie"))
    assert voided()
    with manager.store.write() as connection:
        changes = Changes(connection)
        assert changes.delete(fim_entries, 4, fim_entries.c.full_path == FOLDER + "echo") == 1
        changes.flush_all()
    assert voided()


def test_an_empty_table_clears_the_copy(manager: Manager) -> None:
    assert manager.send(ModelAgent("fim_file").begin(7)[0]) == []
    assert manager.files() == {}
    assert manager.record() == {
        "component": "fim_file", "last_attempt": 7, "last_completion": 7, "n_attempts": 1, "n_completions": 1,
        "last_manager_checksum": "", "last_agent_checksum": "",
    }  # fmt: skip
    assert manager.send(check("global", "echo", "alpha", WHOLE))[0].startswith("fim_file dbsync no_data ")
