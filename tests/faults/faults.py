"""What is done to a cluster, and undone again: a context manager for each kind."""

import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

import psutil

from tests.faults.stage import DATABASE_HOST, Stage
from tests.integration.ha_kit import secmon
from tests.integration.kit import RealNode
from tests.waiting import wait_until

LINK = "secmon-clusterd"
DAEMONS = ("secmon-leaderd", LINK, "secmon-apid", "secmon-remoted", "secmon-authd")


class Fault(NamedTuple):
    """``begin`` is given the node that is concerned. ``of_master``: of the master, or of a worker otherwise.

    ``answers``: the nodes go on answering what they can, as long as it may last.
    """

    begin: Callable[[Stage, RealNode, random.Random], AbstractContextManager[None]]
    of_master: bool = True
    needs_hosts: bool = False
    answers: bool = False


def other_than(node: RealNode, stage: Stage, choice: random.Random) -> RealNode:
    return choice.choice([other for other in stage.cluster.nodes if other is not node])


@contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """The processes do not run, and do not know it afterwards."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def processes(node: RealNode) -> list[psutil.Process]:
    assert node.process is not None
    supervisor = psutil.Process(node.process.pid)
    return [supervisor, *supervisor.children(recursive=True)]


@contextmanager
def _killed(_: Stage, node: RealNode, __: random.Random) -> Iterator[None]:
    node.kill_everything()
    yield
    node.start(wait=False)


@contextmanager
def _ended(_: Stage, node: RealNode, __: random.Random) -> Iterator[None]:
    node.stop()
    yield
    node.start(wait=False)


def _paused(_: Stage, node: RealNode, __: random.Random) -> AbstractContextManager[None]:
    return stopped(processes(node))


@contextmanager
def _daemon_killed(_: Stage, node: RealNode, choice: random.Random) -> Iterator[None]:
    if (pid := node.pid(choice.choice(DAEMONS))) is not None:  # one that is being restarted has none
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield


@contextmanager
def _daemon_paused(_: Stage, node: RealNode, choice: random.Random) -> Iterator[None]:
    pid = node.pid(choice.choice(DAEMONS))
    with suppress(psutil.NoSuchProcess), stopped([psutil.Process(pid)] if pid is not None else []):
        yield


@contextmanager
def _cut_off(stage: Stage, node: RealNode, _: random.Random) -> Iterator[None]:
    assert stage.hosts is not None
    stage.hosts.cut(stage.number(node))
    yield
    stage.hosts.cut(stage.number(node), cut=False)


@contextmanager
def _separated(stage: Stage, *numbers: int) -> Iterator[None]:
    assert stage.hosts is not None
    stage.hosts.separate(*numbers)
    yield
    stage.hosts.separate(*numbers, cut=False)


def _cut_from_database(stage: Stage, node: RealNode, _: random.Random) -> AbstractContextManager[None]:
    return _separated(stage, stage.number(node), DATABASE_HOST)


def _cut_from_a_node(stage: Stage, node: RealNode, choice: random.Random) -> AbstractContextManager[None]:
    return _separated(stage, stage.number(node), stage.number(other_than(node, stage, choice)))


@contextmanager
def _database_killed(stage: Stage, _: RealNode, __: random.Random) -> Iterator[None]:
    stage.database.stop("immediate")
    yield
    stage.database.start()


@contextmanager
def _link_killed_without_database(stage: Stage, node: RealNode, _: random.Random) -> Iterator[None]:
    """The cluster daemon of the master comes back, and answers, while the database is away."""
    stage.database.stop("immediate")
    before = node.pid(LINK)
    if before is not None:
        os.kill(before, signal.SIGKILL)
    try:
        yield
        wait_until(lambda: node.pid(LINK) not in (None, before), f"{LINK} of {node.name} has started again")
        wait_until(stage.cluster.running_whole, "a whole cluster without the database")
    finally:
        stage.database.start()


def _database_paused(stage: Stage, _: RealNode, __: random.Random) -> AbstractContextManager[None]:
    return stopped(stage.database.processes())


@contextmanager
def _database_cut_off(stage: Stage, _: RealNode, __: random.Random) -> Iterator[None]:
    assert stage.hosts is not None
    stage.hosts.cut(DATABASE_HOST)
    yield
    stage.hosts.cut(DATABASE_HOST, cut=False)


@contextmanager
def _sessions_ended(stage: Stage, _: RealNode, __: random.Random) -> Iterator[None]:
    with stage.database.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    yield


@contextmanager
def _switched_over(stage: Stage, node: RealNode, choice: random.Random) -> Iterator[None]:
    with suppress(AssertionError):  # after the fault before it may have no node that could follow
        secmon(node, "cluster", "switchover", other_than(node, stage, choice).name)
    yield


FAULTS: Mapping[str, Fault] = {
    "master killed": Fault(_killed),
    "master paused": Fault(_paused),
    "master stopped": Fault(_ended),
    "master cut off": Fault(_cut_off, needs_hosts=True),
    "master cut from the database": Fault(_cut_from_database, needs_hosts=True),
    "master cut from a worker": Fault(_cut_from_a_node, needs_hosts=True),
    "daemon of the master killed": Fault(_daemon_killed),
    "daemon of the master paused": Fault(_daemon_paused),
    "switchover": Fault(_switched_over),
    "worker killed": Fault(_killed, of_master=False),
    "worker paused": Fault(_paused, of_master=False),
    "worker cut off": Fault(_cut_off, of_master=False, needs_hosts=True),
    "daemon of a worker killed": Fault(_daemon_killed, of_master=False),
    "database killed": Fault(_database_killed, answers=True),
    "cluster daemon and database killed": Fault(_link_killed_without_database, answers=True),
    "database paused": Fault(_database_paused, answers=True),
    "database cut off": Fault(_database_cut_off, needs_hosts=True, answers=True),
    "sessions of the database ended": Fault(_sessions_ended),
}


def possible(stage: Stage) -> list[str]:
    """The kinds of faults that this stage allows."""
    return [name for name, fault in FAULTS.items() if stage.hosts is not None or not fault.needs_hosts]
