"""Internal operations by which a node answers for the alerts that it has raised. The master has judged permissions."""

from typing import Any

import msgspec
from msgspec import Struct

from secmon.alerts.question import AlertQuestion
from secmon.alerts.store import Place
from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome
from secmon.common.query import Fields
from secmon.common.query.shaping import selector
from secmon.operations.internal import INTERNAL

NEWEST_OWN = "GET /internal/own-alerts"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class OwnAlerts(Struct, frozen=True, kw_only=True):
    """The newest alerts that meet ``question``, behind ``place``; ``select``: fields of them."""

    question: AlertQuestion
    limit: int
    place: Place | None = None
    select: list[str] | None = None


@operation(
    "GET", "/internal/own-alerts", params=OwnAlerts, open_to_all=True, catalogue=INTERNAL, item=dict[str, Any]
)  # fmt: skip
async def read_own_alerts(ctx: Context, params: OwnAlerts) -> Outcome:
    """The newest alerts that this node has raised."""

    def read() -> Outcome:
        page = ctx.node.alerts.newest(params.question, params.limit, place=params.place, deadline=ctx.call.deadline)
        items = [{"order": one.order, "alert": shown(one.line, params.select)} for one in page.alerts]
        return Outcome(items=items, total=page.total, extra={"more": page.more})

    return await ctx.node.alert_threads.run(read)


def shown(line: bytes, select: list[str] | None) -> dict[str, object]:
    """What the answer shows of the alert in ``line``."""
    alert: dict[str, object] = _decode(line)
    if select is None:
        return alert
    names = tuple(dict.fromkeys(select))
    return selector(names, Fields(engine="list", select=names), distinct=True)(alert)
