"""A task's life: upgrades of agents, from the request to the agent's report (agent-link.md 10.7). On the master.

Functions work on a connection of ``TaskStore.write()``. Times are whole seconds since 1970. A task changes only as the
table of transitions allows; a request for another change is answered as if there were no such task.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, CursorResult, delete, func, insert, select, update

from secmon.agents.tasks.schema import tasks

MODULE = "upgrade_module"

Status = Literal["Pending", "In progress", "Done", "Failed", "Cancelled", "Timeout", "Legacy"]
Command = Literal["upgrade", "upgrade_custom"]

MAX_ERROR = 1024
"""Characters of an error that a node reports."""

_AT_ONCE = 5000
"""Agents of one question: well below the bound on parameters of a statement."""


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be installed: for a custom upgrade ``file``, a path below the installation folder of the node.

    Otherwise ``version``, where one was asked for, from ``repository`` instead of the configured one: an address, or a
    folder of the installation with ``./`` in front. ``http`` is for addresses that leave it open.
    """

    version: str | None = None
    repository: str | None = None
    http: bool = False
    file: str | None = None
    installer: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A row, without the work."""

    task_id: int
    agent_id: int
    node: str
    module: str
    command: str
    create_time: int
    last_update_time: int | None
    status: str
    error_message: str | None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a node takes upon itself."""

    task_id: int
    agent_id: int
    work: Work


# Requests


def create(
    connection: Connection, wanted: Sequence[tuple[int, str]], command: Command, work: Work, *, now: int
) -> dict[int, int]:
    """A pending task for each of ``wanted``, agents and their nodes; ids of tasks by agent.

    Agents that are being upgraded, or will be by the same node, get none. A task that waits for another node than the
    agent's is replaced.
    """
    known = last(connection, [agent for agent, _ in wanted])
    moved = [task for agent, node in wanted if (task := known.get(agent)) and _waits_elsewhere(task, node)]
    _delete(connection, moved)
    gone = {task.task_id for task in moved}
    free = [
        (agent, node)
        for agent, node in wanted
        if not ((task := known.get(agent)) and task.task_id not in gone and task.status in ("Pending", "In progress"))
    ]
    common = {"module": MODULE, "command": command, "create_time": now, "status": "Pending"}
    text = msgspec.json.encode(work).decode()
    rows = [{"agent_id": agent, "node": node, "work": text, **common} for agent, node in free]
    if not rows:
        return {}
    added = connection.execute(insert(tasks).returning(tasks.c.task_id, tasks.c.agent_id), rows)
    return {agent: task for task, agent in added}


def last(connection: Connection, agents: Sequence[int]) -> dict[int, Task]:
    """The last task of each of ``agents`` that has one."""
    found: dict[int, Task] = {}
    for start in range(0, len(agents), _AT_ONCE):
        some = tasks.c.agent_id.in_(agents[start : start + _AT_ONCE])
        newest = select(func.max(tasks.c.task_id)).where(some).group_by(tasks.c.agent_id)
        rows = connection.execute(select(*_COLUMNS).where(tasks.c.task_id.in_(newest)))
        found |= {row.agent_id: Task(**row._mapping) for row in rows}
    return found


# Work of the nodes


def take(connection: Connection, node: str, limit: int, *, now: int) -> list[Job]:
    """Up to ``limit`` pending tasks of ``node``, the oldest first; from now on they are in progress."""
    columns = (tasks.c.task_id, tasks.c.agent_id, tasks.c.work)
    pending = (tasks.c.status == "Pending", tasks.c.node == node)
    rows = connection.execute(select(*columns).where(*pending).order_by(tasks.c.task_id).limit(limit)).all()
    if rows:
        ids = [row.task_id for row in rows]
        values = {"status": "In progress", "last_update_time": now}
        connection.execute(update(tasks).where(tasks.c.task_id.in_(ids)).values(values))
    return [
        Job(task_id=row.task_id, agent_id=row.agent_id, work=msgspec.json.decode(row.work, type=Work)) for row in rows
    ]


def renew(connection: Connection, node: str, ids: Sequence[int], *, now: int) -> None:
    """The node is still at work on these tasks: they do not time out."""
    mine = (tasks.c.task_id.in_(ids), tasks.c.node == node, tasks.c.status == "In progress")
    connection.execute(update(tasks).where(*mine).values(last_update_time=now))


def finish(connection: Connection, node: str, task: int, error: str | None, *, now: int) -> bool:
    """End a task of ``node`` that is in progress: ``Failed`` with ``error``, else ``Legacy``; whether there was one."""
    mine = (tasks.c.task_id == task, tasks.c.node == node, tasks.c.status == "In progress")
    values = {"status": "Legacy" if error is None else "Failed", "error_message": error, "last_update_time": now}
    return _changed(connection.execute(update(tasks).where(*mine).values(values)))


def report(connection: Connection, agent: int, error: str | None, *, now: int) -> bool:
    """The agent says how its upgrade went; whether its last task was in progress. A late report changes nothing."""
    newest = select(func.max(tasks.c.task_id)).where(tasks.c.agent_id == agent).scalar_subquery()
    values = {"status": "Done" if error is None else "Failed", "error_message": error, "last_update_time": now}
    running = (tasks.c.task_id == newest, tasks.c.status == "In progress")
    return _changed(connection.execute(update(tasks).where(*running).values(values)))


def cancel(connection: Connection, node: str, *, before: int, now: int) -> int:
    """Cancel the pending tasks of ``node`` that were created before ``before``: it has restarted since. How many."""
    waiting = (tasks.c.status == "Pending", tasks.c.node == node, tasks.c.create_time < before)
    values = {"status": "Cancelled", "last_update_time": now}
    return connection.execute(update(tasks).where(*waiting).values(values)).rowcount


def expire(connection: Connection, *, now: int, limit: int) -> int:
    """Tasks in progress of which nothing was heard for ``limit`` seconds have timed out; how many."""
    values = {"status": "Timeout", "last_update_time": now}
    return connection.execute(update(tasks).where(*_silent(now - limit)).values(values)).rowcount


def any_silent(connection: Connection, *, now: int, limit: int) -> bool:
    """Whether :func:`expire` would find any; needs no write lock."""
    return connection.execute(select(tasks.c.task_id).where(*_silent(now - limit)).limit(1)).first() is not None


def clean(connection: Connection, *, before: int) -> int:
    """Delete the tasks created before ``before``; how many."""
    return connection.execute(delete(tasks).where(tasks.c.create_time < before)).rowcount


_COLUMNS = tuple(tasks.c[name] for name in Task.__struct_fields__)


def _silent(since: int) -> tuple[ColumnElement[bool], ...]:
    return tasks.c.status == "In progress", tasks.c.last_update_time < since


def _waits_elsewhere(task: Task, node: str) -> bool:
    return task.status == "Pending" and task.node != node


def _delete(connection: Connection, gone: Iterable[Task]) -> None:
    ids = [task.task_id for task in gone]
    for start in range(0, len(ids), _AT_ONCE):
        connection.execute(delete(tasks).where(tasks.c.task_id.in_(ids[start : start + _AT_ONCE])))


def _changed(result: CursorResult[Any]) -> bool:
    return result.rowcount > 0
