"""Internal operations of the nodes on the upgrade tasks of their agents.

A node receives and ends only its own tasks; it is identified by its certificate.
"""

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, to_builtins
from sqlalchemy import Connection

from secmon.agents.tasks import lifecycle
from secmon.agents.wakeups import wake
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import NoParams
from secmon.common.outcome import Plain
from secmon.operations.internal import INTERNAL

T = TypeVar("T")

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(max_length=lifecycle.MAX_ERROR)]

CANCEL, TAKE, RENEW, FINISH, REPORT = (
    f"PUT /internal/upgrades/{each}" for each in ("cancel", "take", "renew", "finish", "report")
)


class CancelTasks(Struct, frozen=True, kw_only=True):
    """The seconds since the restart of the node; clocks of nodes may differ."""

    seconds: Annotated[float, Meta(ge=0, le=10**9)]


class TakeTasks(Struct, frozen=True, kw_only=True):
    """The number of tasks that the node can begin."""

    limit: Annotated[int, Meta(ge=0, le=1000)]


class RenewTasks(Struct, frozen=True, kw_only=True):
    """The tasks that the node is working on."""

    tasks: Annotated[list[Number], Meta(max_length=10_000)]


class FinishTask(Struct, frozen=True, kw_only=True):
    """A task of a node that has ended there: with an error, or where the agent cannot report."""

    task: Number
    error: Text | None = None


class ReportUpgrade(Struct, frozen=True, kw_only=True):
    """An agent's report on its upgrade."""

    agent: Number
    error: Text | None = None


WAKE = "PUT /internal/own-upgrades/wake"


@operation("PUT", "/internal/own-upgrades/wake", params=NoParams, open_to_all=True, catalogue=INTERNAL)
async def wake_upgrade_task(ctx: Context, _params: NoParams) -> Plain:
    """Wake the upgrade task of this node: there are tasks for it."""
    wake(ctx.node.paths.upgrades_socket)
    return Plain()


async def _change(ctx: Context, change: Callable[[Connection, int], T]) -> T:
    now = int(ctx.node.clock.now().timestamp())

    def work() -> T:
        with ctx.node.tasks.write() as connection:
            return change(connection, now)

    return await asyncio.to_thread(work)


@operation(
    "PUT", "/internal/upgrades/cancel", params=CancelTasks, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def cancel_tasks(ctx: Context, params: CancelTasks) -> Plain:
    """Cancel what waited for the node before its restart; how many."""
    span = ceil(params.seconds)
    return Plain(data=await _change(ctx, lambda c, now: lifecycle.cancel(c, ctx.origin, before=now - span, now=now)))


@operation(
    "PUT", "/internal/upgrades/take", params=TakeTasks, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def take_tasks(ctx: Context, params: TakeTasks) -> Plain:
    """Hand the node tasks that wait for it."""
    jobs = await _change(ctx, lambda c, now: lifecycle.take(c, ctx.origin, params.limit, now=now))
    return Plain(data=to_builtins(jobs))


@operation(
    "PUT", "/internal/upgrades/renew", params=RenewTasks, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def renew_tasks(ctx: Context, params: RenewTasks) -> Plain:
    """Note that the node is at work."""
    await _change(ctx, lambda c, now: lifecycle.renew(c, ctx.origin, params.tasks, now=now))
    return Plain()


@operation(
    "PUT", "/internal/upgrades/finish", params=FinishTask, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def finish_task(ctx: Context, params: FinishTask) -> Plain:
    """End a task; whether it was in progress."""
    task, error = params.task, params.error
    return Plain(data=await _change(ctx, lambda c, now: lifecycle.finish(c, ctx.origin, task, error, now=now)))


@operation(
    "PUT", "/internal/upgrades/report", params=ReportUpgrade, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def report_upgrade(ctx: Context, params: ReportUpgrade) -> Plain:
    """End the agent's task; whether one was in progress."""
    return Plain(data=await _change(ctx, lambda c, now: lifecycle.report(c, params.agent, params.error, now=now)))
