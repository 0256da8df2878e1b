"""Many processes that open stores that are not there yet, at once: as the daemons of a node do at its first start."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from secmon.agents.registry.store import AgentStore
from secmon.agents.tasks.store import TaskStore
from secmon.security.store.security_store import SecurityStore

PROCESSES = 6
STORES = 10
"""One after the other: who comes late finds them made, and so catches up with the others."""


def open_agents(path: Path) -> str:
    store = AgentStore(path)
    with store.write() as connection:
        found = connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'store_id'").scalar_one()
    store.close()
    return str(found)


def open_tasks(path: Path) -> str:
    store = TaskStore(path)
    with store.write() as connection:
        found = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    store.close()
    return str(found)


def open_security(path: Path) -> str:
    store = SecurityStore(path)
    found = store.store_id()
    store.close()
    return found


def in_processes(work: Callable[[], str]) -> list[str]:
    """What ``work`` returns in each of several processes that begin at once; the text of its error if it fails."""
    begin, release = os.pipe()
    running = [_fork(work, begin, release) for _ in range(PROCESSES)]
    os.close(begin)
    os.close(release)  # they start
    answers = []
    for process, report in running:
        with open(report) as file:
            answers.append(file.read())
        os.waitpid(process, 0)
    return answers


def _fork(work: Callable[[], str], begin: int, release: int) -> tuple[int, int]:
    report, tell = os.pipe()
    process = os.fork()
    if process:
        os.close(tell)
        return process, report
    try:
        os.close(release)
        os.read(begin, 1)
        os.write(tell, work().encode())
    except BaseException as error:  # noqa: BLE001 - the parent shows it
        os.write(tell, f"{type(error).__name__}: {error}".encode()[:4000])
    finally:
        os._exit(0)


@pytest.mark.parametrize("opening", [open_agents, open_tasks, open_security])
def test_all_processes_open_the_same_stores(tmp_path: Path, opening: Callable[[Path], str]) -> None:
    paths = [tmp_path / str(number) / "file.db" for number in range(STORES)]
    answers = in_processes(lambda: " ".join(map(opening, paths)))
    assert len(set(answers)) == 1, answers
    assert len(answers[0].split()) == STORES, answers
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o640}
