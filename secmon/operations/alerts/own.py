"""Internal operations by which a node answers for the alerts that it has raised. The master has judged permissions."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from secmon.alerts.acknowledgements import add_acknowledgements
from secmon.alerts.question import AlertQuestion
from secmon.alerts.store import Found, Place
from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Node
from secmon.common.outcome import Outcome
from secmon.common.query import Fields
from secmon.common.query.shaping import selector
from secmon.operations.internal import INTERNAL

NEWEST_OWN = "GET /internal/own-alerts"
COUNT_OWN = "GET /internal/own-alerts/counts"
HISTOGRAM_OWN = "GET /internal/own-alerts/histogram"
NUMBERS_OWN = "GET /internal/own-alerts/numbers"
TAIL_OWN = "GET /internal/own-alerts/tail"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class OwnAlerts(Struct, frozen=True, kw_only=True):
    """The newest alerts that meet ``question``, behind ``place``; ``select``: fields of them."""

    question: AlertQuestion
    limit: int
    place: Place | None = None
    select: list[str] | None = None


class OwnCounts(Struct, frozen=True, kw_only=True):
    """How many of the alerts have each value of ``field``."""

    question: AlertQuestion
    field: str


class OwnHistogram(Struct, frozen=True, kw_only=True):
    """How many of the alerts there are in each ``step`` milliseconds."""

    question: AlertQuestion
    step: int


class OwnNumbers(Struct, frozen=True, kw_only=True):
    """How many alerts meet each question."""

    questions: list[AlertQuestion]


class OwnTail(Struct, frozen=True, kw_only=True):
    """The alerts that were stored after the one with the number ``after``; None: only the number of the last one."""

    question: AlertQuestion
    limit: int
    after: int | None = None
    select: list[str] | None = None


@operation(
    "GET", "/internal/own-alerts", params=OwnAlerts, open_to_all=True, catalogue=INTERNAL, item=dict[str, Any]
)  # fmt: skip
async def read_own_alerts(ctx: Context, params: OwnAlerts) -> Outcome:
    """The newest alerts that this node has raised."""
    store, deadline = ctx.node.alerts, ctx.call.deadline

    def read() -> Outcome:
        page = store.newest(params.question, params.limit, place=params.place, deadline=deadline)
        alerts = shown(ctx.node, page.alerts, params.select)
        items = [{"order": one.order, "alert": alert} for one, alert in zip(page.alerts, alerts, strict=True)]
        return Outcome(items=items, total=page.total, extra={"more": page.more})

    return await ctx.node.alert_threads.run(read)


@operation("GET", "/internal/own-alerts/counts", params=OwnCounts, open_to_all=True, catalogue=INTERNAL)
async def count_own_alerts(ctx: Context, params: OwnCounts) -> Outcome:
    """How many of the alerts that this node has raised have each value of a field."""
    store, deadline = ctx.node.alerts, ctx.call.deadline

    def count() -> Outcome:
        return Outcome(
            items=[msgspec.to_builtins(store.count_values(params.question, params.field, deadline=deadline))]
        )

    return await ctx.node.alert_threads.run(count)


@operation("GET", "/internal/own-alerts/histogram", params=OwnHistogram, open_to_all=True, catalogue=INTERNAL)
async def count_own_alerts_by_time(ctx: Context, params: OwnHistogram) -> Outcome:
    """How many alerts this node has raised in each stretch of time."""
    store, deadline = ctx.node.alerts, ctx.call.deadline

    def count() -> Outcome:
        return Outcome(items=[*store.histogram(params.question, params.step, deadline=deadline).items()])

    return await ctx.node.alert_threads.run(count)


@operation("GET", "/internal/own-alerts/tail", params=OwnTail, open_to_all=True, catalogue=INTERNAL)
async def follow_own_alerts(ctx: Context, params: OwnTail) -> Outcome:
    """The alerts that this node has stored since; ``next``: the number to go on from."""
    store, deadline = ctx.node.alerts, ctx.call.deadline

    def read() -> Outcome:
        last = store.last_sequence()
        if params.after is None or params.after >= last:  # greater: the store was built again
            return Outcome(extra={"next": last})
        found, after = store.stored_after(params.question, params.after, params.limit, deadline=deadline)
        return Outcome(items=shown(ctx.node, found, params.select), extra={"next": after})

    return await ctx.node.alert_threads.run(read)


@operation("GET", "/internal/own-alerts/numbers", params=OwnNumbers, open_to_all=True, catalogue=INTERNAL)
async def count_own_alerts_of_each(ctx: Context, params: OwnNumbers) -> Outcome:
    """How many of the alerts that this node has raised meet each of the questions."""
    store, deadline = ctx.node.alerts, ctx.call.deadline

    def count() -> Outcome:
        return Outcome(items=[store.count(one, deadline=deadline) for one in params.questions])

    return await ctx.node.alert_threads.run(count)


def shown(node: Node, found: Sequence[Found], select: list[str] | None) -> list[dict[str, object]]:
    """What the answer shows of alerts, with their acknowledgements."""
    alerts: list[dict[str, object]] = [_decode(one.line) for one in found]
    add_acknowledgements(node.security, alerts)
    if select is None:
        return alerts
    names = tuple(dict.fromkeys(select))
    chosen = selector(names, Fields(engine="list", select=names), distinct=True)
    return [chosen(alert) for alert in alerts]
