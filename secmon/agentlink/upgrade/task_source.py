"""Sources of a node's upgrade tasks: the store on the master, calls to the master on a worker."""

import asyncio
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.lifecycle import Job
from secmon.agents.tasks.store import TaskStore
from secmon.cluster.node import MasterCall
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

T = TypeVar("T")

UNAVAILABLE = (SecmonError, SQLAlchemyError, OSError)
"""Raised when a task source cannot be reached or written. Every call may be repeated."""


class TaskSource(Protocol):
    """Changes to tasks are durable when a call returns. All methods raise :data:`UNAVAILABLE`."""

    async def cancel(self, seconds: float) -> int:
        """Cancel the tasks that have waited for this node for more than ``seconds``. Returns their number."""

    async def take(self, limit: int) -> Sequence[Job]:
        """Take up to ``limit`` tasks that wait for this node; they are then in progress."""

    async def renew(self, ids: Sequence[int]) -> None:
        """Keep these tasks of the node from timing out."""

    async def finish(self, task: int, error: str | None) -> bool:
        """End a task that failed or, without an error, cannot be followed further; whether it was in progress."""

    async def report(self, agent: int, error: str | None) -> bool:
        """Store an agent's report on its upgrade. Returns whether its task was in progress."""


class RegistryTaskSource:
    """The tasks in the master's store."""

    def __init__(self, store: TaskStore, node: str, clock: Clock) -> None:
        self._store, self._node, self._clock = store, node, clock

    async def cancel(self, seconds: float) -> int:
        return await self._change(lambda c, now: lifecycle.cancel(c, self._node, before=now - ceil(seconds), now=now))

    async def take(self, limit: int) -> Sequence[Job]:
        return await self._change(lambda c, now: lifecycle.take(c, self._node, limit, now=now))

    async def renew(self, ids: Sequence[int]) -> None:
        await self._change(lambda c, now: lifecycle.renew(c, self._node, ids, now=now))

    async def finish(self, task: int, error: str | None) -> bool:
        return await self._change(lambda c, now: lifecycle.finish(c, self._node, task, error, now=now))

    async def report(self, agent: int, error: str | None) -> bool:
        return await self._change(lambda c, now: lifecycle.report(c, agent, error, now=now))

    async def _change(self, change: Callable[[Connection, int], T]) -> T:
        now = int(self._clock.now().timestamp())

        def work() -> T:
            with self._store.write() as connection:
                return change(connection, now)

        return await asyncio.to_thread(work)


class MasterTaskSource:
    """The master's tasks, from a worker."""

    def __init__(self, call_master: MasterCall) -> None:
        self._call_master = call_master

    async def cancel(self, seconds: float) -> int:
        return await self._call("cancel", int, seconds=seconds)

    async def take(self, limit: int) -> Sequence[Job]:
        return await self._call("take", list[Job], limit=limit)

    async def renew(self, ids: Sequence[int]) -> None:
        await self._call("renew", type(None), tasks=list(ids))

    async def finish(self, task: int, error: str | None) -> bool:
        return await self._call("finish", bool, task=task, error=_cut(error))

    async def report(self, agent: int, error: str | None) -> bool:
        return await self._call("report", bool, agent=agent, error=_cut(error))

    async def _call(self, name: str, kind: type[T], **params: Any) -> T:
        try:
            return msgspec.convert(await self._call_master(f"PUT /internal/upgrades/{name}", params), kind)
        except msgspec.ValidationError as error:
            raise SecmonError(3036, str(error)) from None


def _cut(error: str | None) -> str | None:
    return None if error is None else error[: lifecycle.MAX_ERROR]
