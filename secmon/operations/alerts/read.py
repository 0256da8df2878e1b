"""``GET /alerts``: alerts of all nodes, newest first; ``GET /alerts/{alert_id}``: one, with those around it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from secmon.alerts.document import milliseconds
from secmon.alerts.merging import Cursor, Share, SharedAlert, merge_pages
from secmon.alerts.question import AlertQuestion
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Select, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import NEWEST_OWN, OwnAlerts
from secmon.operations.alerts.parameters import READ, READ_ALERTS, AlertFilters, question_of, selection
from secmon.security.rbac.authorization import Require

MAX_PAGE = 1000
MAX_EQUAL_IDS = 10
"""Alerts of different nodes may have the same id."""
READ_ANY_ALERT = Require("alerts:read", "agent:id", mode="restrict")
CursorText = Annotated[str, text_format("cursor", r"[0-9]{1,20}\.[A-Za-z0-9_\-.%]{1,256}")]
AlertId = Annotated[str, text_format("alert_id", r"[0-9]{1,20}\.[0-9]{1,20}")]
PageLimit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Most alerts to return.")]


class AlertPage(AlertFilters, frozen=True, kw_only=True):
    """Which alerts, and which page of them."""

    select: Select = None
    limit: PageLimit = 50
    cursor: Annotated[CursorText | None, Meta(description="Where a page ended: `next` of its answer.")] = None


class OneAlert(Common, frozen=True, kw_only=True):
    """An alert, and how many of its agent to show before and after it."""

    alert_id: AlertId
    seconds: Annotated[int, Meta(ge=0, le=86_400, description="How long before and after it.")] = 300
    limit: PageLimit = 50


@operation(
    "GET", "/alerts", params=AlertPage, place=Place.AGENT, require=(READ_ALERTS,), messages=READ, item=dict[str, Any],
    extra={"next": str | None},
)  # fmt: skip
async def list_alerts(ctx: Context, params: AlertPage) -> Outcome:
    """Alerts, newest first; pages follow each other by cursors."""
    cursor = _cursor(params.cursor)
    return await _page(ctx, question_of(ctx, params), params.limit, cursor=cursor, select=params.select)


@operation(
    "GET", "/alerts/{alert_id}", params=OneAlert, place=Place.AGENT, require=(READ_ANY_ALERT,), messages=READ,
    item=dict[str, Any], extra={"around": list[dict[str, Any]]},
)  # fmt: skip
async def read_alert(ctx: Context, params: OneAlert) -> Outcome:
    """An alert, and those of the same agent shortly before and after it."""
    visible = AlertQuestion(agents=selection(ctx))
    wanted = replace(visible, values={"id": (params.alert_id,)})
    outcome = await _page(ctx, wanted, MAX_EQUAL_IDS)
    if not outcome.items and not visible.agents.nothing:
        outcome.fail(SecmonError(1770), params.alert_id)
    outcome.extra = {"around": []}
    if outcome.items:
        alert, distance = outcome.items[0], params.seconds * 1000
        at, agent = milliseconds(alert["timestamp"]), alert.get("agent", {}).get("id", "")
        near = replace(visible, values={"agent.id": (agent,)}, since=at - distance, until=at + distance + 1)
        around = await _page(ctx, near, params.limit)
        outcome.extra["around"] = [one for one in around.items if one != alert]
    return outcome


async def _page(
    ctx: Context,
    question: AlertQuestion,
    limit: int,
    *,
    cursor: Cursor | None = None,
    select: list[str] | None = None,
) -> Outcome:
    """The alerts of all nodes behind ``cursor``."""

    def share_of(node: str) -> OwnAlerts:
        place = None if cursor is None else cursor.place(node)
        return OwnAlerts(question=question, limit=limit, place=place, select=select)

    answers, outcome = await ask_nodes(ctx, NEWEST_OWN, question, share_of)
    shares = {
        name: Share(msgspec.convert(answer.items, list[SharedAlert]), bool(answer.extra.get("more")))
        for name, answer in answers.items()
    }
    page = merge_pages(shares, limit)
    outcome.items = page.alerts
    outcome.total = sum(answer.count for answer in answers.values())
    outcome.extra = {"next": None if page.following is None else str(page.following)}
    return outcome


def _cursor(text: str | None) -> Cursor | None:
    try:
        return None if text is None else Cursor.parse(text)
    except ValueError:
        raise SecmonError(1407, f"not a cursor: {text!r}") from None
