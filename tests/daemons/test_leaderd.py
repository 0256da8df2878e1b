"""Nodes of toys with real supervisors and leaders, over a real store of record."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from secmon.cluster.leadership.client import LeaderClient, LeaderStatus
from secmon.cluster.leadership.role_file import CurrentRole, read_role, start_as_worker, write_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.common.daemon_names import LEADER
from secmon.common.errors import SecmonError
from secmon.daemons.control_sockets import SupervisorClient
from secmon.daemons.role_change import DEPENDENT, concerned
from tests.cluster.leadership.kit import set_up
from tests.daemons.conftest import ToyNode
from tests.waiting import wait_until

APID, CLUSTERD = "secmon-apid", "secmon-clusterd"
NewNode = Callable[[str], ToyNode]


@pytest.fixture
def new_node(record: RecordAddress) -> Iterator[NewNode]:
    """Makes nodes whose leaders agree over one store of record."""
    set_up(record).dispose()
    folder = Path(tempfile.mkdtemp(prefix="secmon-"))
    nodes: list[ToyNode] = []

    def make(name: str) -> ToyNode:
        nodes.append(ToyNode(folder / name))
        (folder / name / "record").write_text(record.url)
        return nodes[-1]

    yield make
    for node in nodes:
        node.kill_everything()
    shutil.rmtree(folder)


def role(node: ToyNode) -> CurrentRole:
    return read_role(node.paths.role)


def is_master(node: ToyNode) -> bool:
    """Whether the daemons that depend on the role have started as those of a master."""
    return role(node).role == "master" and running(node)


def running(node: ToyNode) -> bool:
    return node.phase() == "running" and all(node.state(name) == "running" for name in (APID, CLUSTERD))


def follows(node: ToyNode, name: str) -> bool:
    term = role(node).term
    return role(node).role == "worker" and term is not None and term.holder == name and running(node)


def began(node: ToyNode, daemon: str) -> int:
    """How often ``daemon`` has started."""
    return node.journal().count((daemon, "start"))


def status(node: ToyNode) -> LeaderStatus:
    return asyncio.run(LeaderClient(node.paths).status())


def pids(node: ToyNode) -> dict[str, int | None]:
    return {name: node.pid(name) for name in (APID, CLUSTERD)}


def number(node: ToyNode) -> int:
    term = role(node).term
    return term.number if term else 0


def renewals(node: ToyNode) -> int:
    """Of the leader that runs now."""
    with suppress(SecmonError):
        return int(node.ask_daemon(LEADER, "counters").get("leadership.renewals", 0))
    return 0


def signal_leader(node: ToyNode, what: int) -> int:
    pid = node.pid(LEADER)
    assert pid is not None
    os.kill(pid, what)
    return pid


def test_one_node(new_node: NewNode) -> None:
    a = new_node("a")
    a.start()
    wait_until(lambda: began(a, CLUSTERD) == 2, "it has started again as that of a master")
    wait_until(lambda: is_master(a), "a is the master")
    assert began(a, APID) == 1, "the API has no role"
    assert "ERROR" not in a.output()
    states = asyncio.run(SupervisorClient(a.paths, daemons=(LEADER,)).checked_states())
    assert dict(states) == {LEADER: "running"}, "secmon status lists it"

    for name, arguments in (("shown", {"number": "x", "by": "b"}), ("failed", {}), ("dance", {})):
        with pytest.raises(SecmonError) as refused:
            asyncio.run(LeaderClient(a.paths)._send(name, **arguments))
        assert refused.value.code == 1014

    a.paths.role.unlink()
    wait_until(lambda: role(a).role == "master", "the file is there again")

    before, leader = pids(a), signal_leader(a, signal.SIGKILL)
    wait_until(lambda: a.pid(LEADER) not in (None, leader), "it is started again")
    wait_until(lambda: renewals(a) > 0, "it goes on with its term")
    assert (number(a), pids(a)) == (1, before)


def test_two_nodes(new_node: NewNode) -> None:
    a, b = new_node("a"), new_node("b")
    a.start()
    wait_until(lambda: is_master(a), "a is the master")
    b.start()
    wait_until(lambda: began(b, CLUSTERD) == 2 and follows(b, "a"), "the link of b has a master")

    signal_leader(a, signal.SIGSTOP)
    wait_until(lambda: is_master(b), "b has taken over from a paused master")
    assert role(a).role == "master"
    signal_leader(a, signal.SIGCONT)
    wait_until(lambda: follows(a, "b"), "a becomes a worker by itself")

    wait_until(lambda: "a" in status(b).candidates, "a is a candidate")
    (b.root / f"{APID}.fail").touch()
    pid = b.pid(APID)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_master(a), "a has taken over from a node whose API does not come back")
    assert "secmon-apid does not come back" in role(a).reason
    wait_until(lambda: role(b).role == "worker", "b is a worker")
    (b.root / f"{APID}.fail").unlink()
    wait_until(lambda: follows(b, "a"), "b is whole again")

    assert b.end() == 0
    assert a.end() == 0
    log = (a.paths.logs / "ossec.log").read_text()
    assert "term 3 is resigned: a was stopped" in log
    assert "ERROR" not in log


TERM = Term(7, "id", "b", "10.0.0.2", 1516)
OTHER = Term(8, "other", "b", "10.0.0.2", 1516)


def test_which_daemons_a_change_concerns() -> None:
    worker, master = CurrentRole("worker", TERM), CurrentRole("master", TERM)
    assert concerned(worker, CurrentRole("worker", TERM, "another reason")) == set()
    assert concerned(worker, CurrentRole("worker", OTHER)) == {CLUSTERD}
    assert concerned(worker, master) == concerned(master, worker) == DEPENDENT
    assert concerned(master, CurrentRole("master", OTHER)) == DEPENDENT, "their writes prove the term"


def test_a_node_starts_as_a_worker(tmp_path: Path) -> None:
    file = tmp_path / "role"
    start_as_worker(file)
    assert not file.exists()
    write_role(file, CurrentRole("master", TERM, "why"))
    start_as_worker(file)
    assert read_role(file) == CurrentRole("worker", TERM, "why")
