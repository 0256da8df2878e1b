"""``GET /alerts/stream``: alerts as they come. The API repeats this operation, from where the last one ended."""

from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Select, text_format
from secmon.common.outcome import Outcome
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import TAIL_OWN, OwnTail
from secmon.operations.alerts.parameters import READ, READ_ALERTS, AlertFilters, question_of

BATCH = 200
"""Alerts of a node in one answer."""
_OF_NODE = r"[A-Za-z0-9_\-.%]{1,256}=[0-9]{1,18}"
Position = Annotated[str, text_format("position", rf"{_OF_NODE}(?:~{_OF_NODE}){{0,999}}")]


class FollowedAlerts(AlertFilters, frozen=True, kw_only=True):
    """Which alerts, and after which ones."""

    select: Select = None
    position: Annotated[
        Position | None, Meta(description="Where a stream ended: the `id` of its last event. Without: from now on.")
    ] = None


def follow(params: FollowedAlerts, answer: Outcome) -> FollowedAlerts:
    """The parameters of the next repetition."""
    return replace(params, position=str(answer.extra["position"]) or None)


@operation(
    "GET", "/alerts/stream", params=FollowedAlerts, place=Place.AGENT, require=(READ_ALERTS,), messages=READ,
    item=dict[str, Any], extra={"position": str}, follow=follow,
)  # fmt: skip
async def follow_alerts(ctx: Context, params: FollowedAlerts) -> Outcome:
    """Alerts as they are raised, as server-sent events."""
    question = question_of(ctx, params)
    known = {} if question.agents.nothing else _numbers(params.position)

    def tail_of(node: str) -> OwnTail:
        return OwnTail(question=question, limit=BATCH, after=known.get(node), select=params.select)

    answers, outcome = await ask_nodes(ctx, TAIL_OWN, question, tail_of)
    for name, answer in answers.items():
        outcome.items += answer.items
        known[name] = int(answer.extra["next"])
    outcome.total = len(outcome.items)
    outcome.extra = {"position": "~".join(f"{name}={number}" for name, number in sorted(known.items()))}
    return outcome


def _numbers(position: str | None) -> dict[str, int]:
    """The number of the last alert seen of each node."""
    pairs = [part.rpartition("=") for part in (position or "").split("~") if part]
    return {name: int(number) for name, _, number in pairs}
