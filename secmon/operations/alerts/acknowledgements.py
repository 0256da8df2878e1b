"""``/alerts/acknowledgements``: alerts that a user has looked at, with a comment."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from secmon.alerts.acknowledgements import Acknowledgement, acknowledge, shown, withdraw
from secmon.alerts.question import AlertQuestion
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Listing
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Sort
from secmon.operations.agents.listing import scope_of
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import NEWEST_OWN, OwnAlerts
from secmon.operations.alerts.parameters import some_agents
from secmon.operations.alerts.read import MAX_EQUAL_IDS, READ_ANY_ALERT, AlertId
from secmon.operations.alerts.silence_items import Line
from secmon.operations.security.objects import confirmed
from secmon.security.rbac.authorization import Require
from secmon.security.store.schema import acknowledgements
from secmon.security.store.transaction import WriteTransaction

MOST = 1000
"""Alerts of one request."""
ACKNOWLEDGE = Require("alerts:acknowledge", "agent:id", mode="item")
SHOWN = Fields(engine="list", sort=("id", "agent", "user", "time"), required=("id", "agent"))
_IDENTITY = ["id", "agent.id", "timestamp"]


class AlertsAndComment(Struct, frozen=True, forbid_unknown_fields=True):
    """Ids of alerts, and what there is to say of them."""

    ids: Annotated[list[AlertId], Meta(min_length=1, max_length=MOST)]
    comment: Line = ""


class PutAcknowledgements(Common, frozen=True, kw_only=True):
    """Body of PUT /alerts/acknowledgements."""

    body: AlertsAndComment


class DeleteAcknowledgements(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /alerts/acknowledgements."""

    alert_ids: Annotated[list[AlertId], Meta(max_length=MOST, description="Ids of alerts.")]


@operation(
    "GET", "/alerts/acknowledgements", params=Listing, place=Place.MASTER, item=Acknowledgement, fields=SHOWN,
    default_sort=Sort(("time",), descending=True), require=(READ_ANY_ALERT,),
    messages=Messages("All acknowledgements were returned", none="No acknowledgement was returned"),
)  # fmt: skip
async def list_acknowledgements(ctx: Context, params: Listing) -> Outcome:
    """The acknowledgements of alerts that the caller may see, the newest first."""
    scope = scope_of(ctx.grant("agent:id"))

    def read() -> Outcome:
        with ctx.node.security.read() as tx:
            rows = tx.select(acknowledgements)
        return Outcome(items=[msgspec.to_builtins(shown(row)) for row in rows if row["agent"] in scope])

    return await asyncio.to_thread(read)


@operation(
    "PUT", "/alerts/acknowledgements", params=PutAcknowledgements, place=Place.MASTER, item=Acknowledgement,
    require=(ACKNOWLEDGE,),
    messages=Messages("The alerts were acknowledged", "Some alerts were not acknowledged", "No alert was acknowledged"),
)  # fmt: skip
async def acknowledge_alerts(ctx: Context, params: PutAcknowledgements) -> Outcome:
    """Acknowledge alerts; an earlier acknowledgement is replaced."""
    ids, comment = tuple(dict.fromkeys(params.body.ids)), params.body.comment
    question = AlertQuestion(agents=some_agents(ctx), values={"id": ids})
    asked = OwnAlerts(question=question, limit=MAX_EQUAL_IDS * len(ids), select=_IDENTITY)
    answers, outcome = await ask_nodes(ctx, NEWEST_OWN, question, lambda node: asked)
    alerts = [one["alert"] for answer in answers.values() for one in answer.items]
    places = {number: place for place, number in enumerate(ids)}
    alerts.sort(key=lambda alert: places[alert["id"]])
    missing = set(ids) - {alert["id"] for alert in alerts}
    if missing:
        outcome.fail(SecmonError(1770), *sorted(missing))

    def work(tx: WriteTransaction) -> None:
        made = acknowledge(tx, alerts, ctx.node.clock, user=ctx.call.identity.user, comment=comment)
        outcome.items = [msgspec.to_builtins(one) for one in made]

    if alerts:
        await ctx.change_security(work)
    outcome.total = len(outcome.items)
    return await confirmed(ctx, outcome)


@operation(
    "DELETE", "/alerts/acknowledgements", params=DeleteAcknowledgements, place=Place.MASTER, item=Acknowledgement,
    require=(ACKNOWLEDGE,),
    messages=Messages("The alerts are no longer acknowledged", "Some alerts are as before", "No alert was changed"),
)  # fmt: skip
async def withdraw_acknowledgements(ctx: Context, params: DeleteAcknowledgements) -> Outcome:
    """Take acknowledgements back."""
    some_agents(ctx)
    scope, ids, outcome = scope_of(ctx.grant("agent:id")), set(params.alert_ids), Outcome()

    def work(tx: WriteTransaction) -> None:
        rows = tx.select(acknowledgements, acknowledgements.c.alert_id.in_(ids))
        gone = [shown(row) for row in rows if row["agent"] in scope]
        withdraw(tx, [(one.id, one.agent) for one in gone])
        outcome.items = [msgspec.to_builtins(one) for one in gone]

    await ctx.change_security(work)
    missing = ids - {one["id"] for one in outcome.items}
    if missing:
        outcome.fail(SecmonError(1777), *sorted(missing))
    return await confirmed(ctx, outcome)
