"""``GET /alerts/histogram`` and ``GET /alerts/top``: how many alerts there are, by time or by value of a field."""

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from secmon.alerts.document import UNINDEXED
from secmon.alerts.merging import MergedCounts, SharedCounts, merge_counts
from secmon.alerts.question import AlertQuestion
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Names, text_format
from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import COUNT_OWN, HISTOGRAM_OWN, OwnCounts, OwnHistogram
from secmon.operations.alerts.parameters import READ_ALERTS, AlertFilters, question_of

MAX_STEPS = 10_000
LAST_DAY = "now-24h"
COUNTED = Messages(all="The alerts were counted", some="Some alerts were not counted", none="No alert was found")
_UNIT_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
Interval = Annotated[str, text_format("interval", r"[1-9][0-9]{0,4}[smhdw]")]


class HistogramFilters(AlertFilters, frozen=True, kw_only=True):
    """Which alerts, and the length of a step."""

    interval: Annotated[Interval, Meta(description="Length of a step: `10m`, `1h`, `1d`.")] = "1h"


class TopFilters(AlertFilters, frozen=True, kw_only=True):
    """Which alerts, the field whose values are counted, and how many of these to return."""

    field: Annotated[Names, Meta(description="Any field of the alerts, such as `rule.id` or `data.srcip`.")] = "rule.id"
    limit: Annotated[int, Meta(ge=1, le=1000, description="Most values to return.")] = 10


class TimeCount(Struct, frozen=True):
    """The begin of a step, and the alerts in it."""

    time: str
    count: int


class ValueCount(Struct, frozen=True):
    """A value, and the alerts that have it."""

    value: str
    count: int


@operation(
    "GET", "/alerts/histogram", params=HistogramFilters, place=Place.AGENT, require=(READ_ALERTS,), messages=COUNTED,
    item=TimeCount, extra={"alerts": int},
)  # fmt: skip
async def count_by_time(ctx: Context, params: HistogramFilters) -> Outcome:
    """How many alerts there are in each step of time; by default in each hour of the last day."""
    step = int(params.interval[:-1]) * _UNIT_MILLISECONDS[params.interval[-1]]
    question = question_of(ctx, params, since=LAST_DAY)
    until = question.until or int(ctx.node.clock.now().timestamp() * 1000)
    outcome = await steps_of(ctx, replace(question, until=until), step)
    outcome.extra = {"alerts": sum(one["count"] for one in outcome.items)}
    return outcome


@operation(
    "GET", "/alerts/top", params=TopFilters, place=Place.AGENT, require=(READ_ALERTS,), messages=COUNTED,
    item=ValueCount, extra={"alerts": int, "error": int},
)  # fmt: skip
async def count_by_value(ctx: Context, params: TopFilters) -> Outcome:
    """The most frequent values of a field, by default in the last day."""
    if params.field in UNINDEXED:
        raise SecmonError(1408, f"{params.field!r} is not counted")
    merged, outcome = await values_of(ctx, question_of(ctx, params, since=LAST_DAY), params.field, params.limit)
    outcome.items = [{"value": value, "count": count} for value, count in merged.counts]
    outcome.total = len(outcome.items)
    outcome.extra = {"alerts": merged.total, "error": merged.error}
    return outcome


async def steps_of(ctx: Context, question: AlertQuestion, step: int) -> Outcome:
    """The alerts in each ``step`` milliseconds of a question with an end. Raises 1771."""
    first = (question.since or 0) // step
    last = max(first, -(-(question.until or 0) // step))
    if last - first > MAX_STEPS:
        raise SecmonError(1771, f"{last - first}, the maximum is {MAX_STEPS}")
    asked = OwnHistogram(question=question, step=step)
    answers, outcome = await ask_nodes(ctx, HISTOGRAM_OWN, question, lambda node: asked)
    counts: Counter[int] = Counter()
    for answer in answers.values():
        counts.update(dict(msgspec.convert(answer.items, list[tuple[int, int]])))
    steps = range(first, last) if answers else ()
    outcome.items = [{"time": _begin(at * step), "count": counts[at * step]} for at in steps]
    outcome.total = len(outcome.items)
    return outcome


async def values_of(ctx: Context, question: AlertQuestion, field: str, limit: int) -> tuple[MergedCounts, Outcome]:
    """The most frequent values of a field, and the nodes that did not answer."""
    asked = OwnCounts(question=question, field=field)
    answers, outcome = await ask_nodes(ctx, COUNT_OWN, question, lambda node: asked)
    shares = [share for answer in answers.values() for share in msgspec.convert(answer.items, list[SharedCounts])]
    return merge_counts(shares, limit), outcome


def _begin(milliseconds: int) -> str:
    return iso_z(datetime.fromtimestamp(milliseconds / 1000, UTC))
