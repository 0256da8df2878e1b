"""Tasks and their transitions (agent-link.md 10.7)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.lifecycle import Work
from secmon.agents.tasks.schema import metadata, tasks
from secmon.agents.tasks.store import TaskStore
from secmon.common.errors import SecmonError

NOW = 1_767_225_600


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TaskStore]:
    store = TaskStore(tmp_path / "queue/tasks/tasks.db")
    yield store
    store.close()


@pytest.fixture
def connection(store: TaskStore) -> Iterator[sa.Connection]:
    with store.write() as connection:
        yield connection


def new(connection: sa.Connection, *agents: int, node: str = "alpha", now: int = NOW) -> dict[int, int]:
    return lifecycle.create(connection, [(agent, node) for agent in agents], "upgrade", Work(), now=now)


def statuses(connection: sa.Connection) -> dict[int, str]:
    rows = connection.execute(sa.select(tasks.c.task_id, tasks.c.status))
    return dict(map(tuple, rows))


def status(connection: sa.Connection, agent: int) -> tuple[str, str | None, int | None]:
    found = lifecycle.last(connection, [agent])[agent]
    return found.status, found.error_message, found.last_update_time


def test_from_the_request_to_the_report(connection: sa.Connection) -> None:
    work = Work(version="v4.8.2", repository="packages.example", http=True)
    made = lifecycle.create(connection, [(7, "alpha"), (8, "beta")], "upgrade", work, now=NOW)
    assert made == {7: 1, 8: 2}
    assert status(connection, 7) == ("Pending", None, None)
    [job] = lifecycle.take(connection, "alpha", 5, now=NOW + 1)
    assert (job.task_id, job.agent_id, job.work) == (1, 7, work)
    assert lifecycle.take(connection, "alpha", 5, now=NOW + 1) == []
    assert status(connection, 7) == ("In progress", None, NOW + 1)
    assert lifecycle.report(connection, 7, None, now=NOW + 60)
    assert status(connection, 7) == ("Done", None, NOW + 60)
    assert not lifecycle.report(connection, 7, "again", now=NOW + 61)
    assert not lifecycle.report(connection, 9, None, now=NOW)
    assert status(connection, 7) == ("Done", None, NOW + 60)


def test_ends_that_the_node_reports(connection: sa.Connection) -> None:
    made = new(connection, 1, 2, 3)
    assert not lifecycle.finish(connection, "alpha", made[1], "too early", now=NOW)
    lifecycle.take(connection, "alpha", 9, now=NOW)
    assert lifecycle.finish(connection, "alpha", made[1], "Send open file error", now=NOW + 5)
    assert lifecycle.finish(connection, "alpha", made[2], None, now=NOW + 5)
    assert not lifecycle.finish(connection, "beta", made[3], None, now=NOW + 5)
    assert status(connection, 1) == ("Failed", "Send open file error", NOW + 5)
    assert status(connection, 2)[0] == "Legacy"
    assert status(connection, 3)[0] == "In progress"
    assert lifecycle.report(connection, 3, "Upgrade procedure exited with error code", now=NOW + 6)
    assert status(connection, 3)[0] == "Failed"


def test_one_upgrade_at_a_time(connection: sa.Connection) -> None:
    new(connection, 1, 2, 3)
    assert new(connection, 1, 4) == {4: 4}
    lifecycle.take(connection, "alpha", 2, now=NOW)
    assert new(connection, 1, 2, 3) == {}
    lifecycle.report(connection, 1, None, now=NOW)
    assert new(connection, 1, 2) == {1: 5}


def test_a_task_that_waits_for_the_wrong_node_is_replaced(connection: sa.Connection) -> None:
    new(connection, 1, 2, node="alpha")
    lifecycle.take(connection, "alpha", 1, now=NOW)
    assert new(connection, 1, 2, node="beta") == {2: 3}  # the first is under way at alpha
    assert statuses(connection) == {1: "In progress", 3: "Pending"}


def test_the_oldest_are_taken_first(connection: sa.Connection) -> None:
    new(connection, 5, 4, 3, 2, 1)
    assert [job.agent_id for job in lifecycle.take(connection, "alpha", 2, now=NOW)] == [5, 4]
    assert [job.agent_id for job in lifecycle.take(connection, "alpha", 2, now=NOW)] == [3, 2]


def test_restart_of_a_node(connection: sa.Connection) -> None:
    new(connection, 1, 2, now=NOW - 60)
    new(connection, 3, node="beta", now=NOW - 60)
    lifecycle.take(connection, "alpha", 1, now=NOW - 50)
    new(connection, 4, now=NOW)
    assert lifecycle.cancel(connection, "alpha", before=NOW - 30, now=NOW) == 1
    assert statuses(connection) == {1: "In progress", 2: "Cancelled", 3: "Pending", 4: "Pending"}


def test_silence(connection: sa.Connection) -> None:
    made = new(connection, 1, 2, 3)
    lifecycle.take(connection, "alpha", 2, now=NOW)
    lifecycle.renew(connection, "alpha", [made[2]], now=NOW + 600)
    lifecycle.renew(connection, "beta", [made[1]], now=NOW + 600)
    assert lifecycle.expire(connection, now=NOW + 900, limit=900) == 0
    assert lifecycle.expire(connection, now=NOW + 901, limit=900) == 1
    assert statuses(connection) == {1: "Timeout", 2: "In progress", 3: "Pending"}
    assert not lifecycle.report(connection, 1, None, now=NOW + 902)


def test_old_tasks_go_and_their_ids_do_not_come_back(connection: sa.Connection) -> None:
    new(connection, 1, now=NOW - 8 * 86_400)
    new(connection, 2, now=NOW)
    assert lifecycle.clean(connection, before=NOW - 7 * 86_400) == 1
    assert statuses(connection) == {2: "Pending"}
    lifecycle.clean(connection, before=NOW + 1)
    assert new(connection, 3) == {3: 3}


def test_thousands_in_one_go(connection: sa.Connection) -> None:
    made = new(connection, *range(1, 12_001))
    assert len(made) == 12_000
    assert len(lifecycle.last(connection, range(1, 12_001))) == 12_000
    assert new(connection, *range(1, 12_002)) == {12_001: 12_001}


def test_a_file_of_a_newer_version(store: TaskStore) -> None:
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0009'")
    store.close()
    with pytest.raises(SecmonError, match="newer version of secmon"), store.read():
        pass


ALLOWED = {
    (None, "Pending"), ("Pending", "In progress"), ("In progress", "Legacy"), ("In progress", "Done"),
    ("In progress", "Failed"), ("Pending", "Cancelled"), ("In progress", "Timeout"), ("Pending", None),
}  # fmt: skip

agents = st.integers(1, 3)
nodes = st.sampled_from(["alpha", "beta"])
errors = st.none() | st.just("no")
Step = Callable[[sa.Connection, int], Any]


def steps() -> st.SearchStrategy[Step]:
    """What anybody may ask for, at any time."""
    return st.one_of(
        st.builds(lambda a, n: lambda c, t: new(c, a, node=n, now=t), agents, nodes),
        st.builds(lambda n: lambda c, t: lifecycle.take(c, n, 1, now=t), nodes),
        st.builds(lambda n, i, e: lambda c, t: lifecycle.finish(c, n, i, e, now=t), nodes, st.integers(1, 9), errors),
        st.builds(lambda a, e: lambda c, t: lifecycle.report(c, a, e, now=t), agents, errors),
        st.builds(lambda n: lambda c, t: lifecycle.cancel(c, n, before=t - 2, now=t), nodes),
        st.builds(lambda n, i: lambda c, t: lifecycle.renew(c, n, [i], now=t), nodes, st.integers(1, 9)),
        st.just(lambda c, t: lifecycle.expire(c, now=t, limit=3)),
    )


@contextmanager
def in_memory() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with engine.connect() as connection:
        metadata.create_all(connection)
        yield connection
    engine.dispose()


@settings(max_examples=50)
@given(st.lists(steps(), max_size=30))
def test_whatever_is_asked_tasks_change_as_allowed(asked: list[Step]) -> None:
    with in_memory() as connection:
        for at, step in enumerate(asked):
            before = statuses(connection)
            step(connection, NOW + at)
            after = statuses(connection)
            changes = {
                (before.get(task), after.get(task)) for task in before | after if before.get(task) != after.get(task)
            }
            assert changes <= ALLOWED
            live = [agent for agent in (1, 2, 3) if _live(connection, agent) > 1]
            assert live == []


def _live(connection: sa.Connection, agent: int) -> int:
    c = tasks.c
    running = c.status.in_(("Pending", "In progress"))
    found = connection.execute(sa.select(sa.func.count()).where(c.agent_id == agent, running))
    return int(found.scalar_one())
