"""``GET /alerts``: alerts of all nodes, newest first."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from secmon.alerts.merging import Cursor, Share, SharedAlert, merge_pages
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Select, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import NEWEST_OWN, OwnAlerts
from secmon.operations.alerts.parameters import READ_ALERTS, AlertFilters, question_of

MAX_PAGE = 1000
READ = Messages(all="The alerts were read", some="Some alerts were not read", none="No alert was found")
CursorText = Annotated[str, text_format("cursor", r"[0-9]{1,20}\.[A-Za-z0-9_\-.%]{1,256}")]
PageLimit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Most alerts to return.")]


class AlertPage(AlertFilters, frozen=True, kw_only=True):
    """Which alerts, and which page of them."""

    select: Select = None
    limit: PageLimit = 50
    cursor: Annotated[CursorText | None, Meta(description="Where a page ended: `next` of its answer.")] = None


@operation(
    "GET", "/alerts", params=AlertPage, place=Place.AGENT, require=(READ_ALERTS,), messages=READ, item=dict[str, Any],
    extra={"next": str | None},
)  # fmt: skip
async def list_alerts(ctx: Context, params: AlertPage) -> Outcome:
    """Alerts, newest first; pages follow each other by cursors."""
    question = question_of(ctx, params)
    cursor = _cursor(params.cursor)

    def share_of(node: str) -> OwnAlerts:
        place = None if cursor is None else cursor.place(node)
        return OwnAlerts(question=question, limit=params.limit, place=place, select=params.select)

    answers, outcome = await ask_nodes(ctx, NEWEST_OWN, share_of)
    shares = {
        name: Share(msgspec.convert(answer.items, list[SharedAlert]), bool(answer.extra.get("more")))
        for name, answer in answers.items()
    }
    page = merge_pages(shares, params.limit)
    outcome.items = page.alerts
    outcome.total = sum(answer.count for answer in answers.values())
    outcome.extra = {"next": None if page.following is None else str(page.following)}
    return outcome


def _cursor(text: str | None) -> Cursor | None:
    try:
        return None if text is None else Cursor.parse(text)
    except ValueError:
        raise SecmonError(1407, f"not a cursor: {text!r}") from None
