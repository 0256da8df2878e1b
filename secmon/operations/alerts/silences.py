"""``/alerts/silences``: alerts that are stored, but for a time neither delivered nor answered."""

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.alerts.question import AlertQuestion
from secmon.alerts.silences import (
    KEPT,
    Silence,
    change_silence,
    create_silence,
    delete_silence,
    in_milliseconds,
    permitted_silence,
    read_silences,
)
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Listing
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Sort
from secmon.operations.alerts.all_nodes import ask_nodes
from secmon.operations.alerts.own import NUMBERS_OWN, OwnNumbers
from secmon.operations.alerts.parameters import MAX_LEVEL, Conditions, conditions_of, selection, some_agents
from secmon.operations.alerts.silence_items import Line, SilenceItem, SilenceTime, item_of, moment_of
from secmon.operations.security.objects import Number, change_one
from secmon.security.items import Item
from secmon.security.rbac.authorization import Require
from secmon.security.store.transaction import WriteTransaction

CREATE = Require("silences:create", "agent:id", param="agents_list")
SHOWN = Fields(engine="list", sort=("id", "state", "since", "until", "created", "user"), required=("id",))
Reason = Annotated[Line, Meta(min_length=1)]


class NewSilence(Struct, frozen=True, forbid_unknown_fields=True):
    """Until when, and why. Times: ``now+4h``, ``2026-11-23T08:00:00Z``."""

    until: SilenceTime
    reason: Reason
    since: SilenceTime = "now"


class PostSilence(Conditions, frozen=True, kw_only=True):
    """Which alerts, by the filters of ``GET /alerts``; one at least."""

    body: NewSilence


class ChangedSilence(Struct, frozen=True, forbid_unknown_fields=True):
    """Another end, or another reason. ``now`` ends it."""

    until: SilenceTime | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET


class PutSilence(Common, frozen=True, kw_only=True):
    """Path and body of PUT /alerts/silences/{silence_id}."""

    silence_id: Number
    body: ChangedSilence


class DeleteSilence(Common, frozen=True, kw_only=True):
    """Path of DELETE /alerts/silences/{silence_id}."""

    silence_id: Number


class ListSilences(Listing, frozen=True, kw_only=True):
    """Which silences."""

    ended_days: Annotated[
        int, Meta(ge=0, le=KEPT.days, description="Also those that have ended so many days ago, or less.")
    ] = 7
    counts: Annotated[bool, Meta(description="How many alerts each has covered so far.")] = True


@operation(
    "GET", "/alerts/silences", params=ListSilences, place=Place.MASTER, item=SilenceItem, fields=SHOWN,
    default_sort=Sort(("id",), descending=True), require=(Require("silences:read", "agent:id", mode="restrict"),),
    messages=Messages("All silences were returned", "Some silences were not returned", "No silence was returned"),
)  # fmt: skip
async def list_silences(ctx: Context, params: ListSilences) -> Outcome:
    """The silences whose agents the caller may all see, the newest first."""
    seen, now = selection(ctx), ctx.node.clock.now()
    oldest = in_milliseconds(now) - params.ended_days * 86_400_000

    def read() -> list[Silence]:
        with ctx.node.security.read() as tx:
            return [one for one in read_silences(tx) if one.until > oldest and one.question.agents.within(seen)]

    found = await asyncio.to_thread(read)
    if not params.counts or not found:
        return Outcome(items=[item_of(one, now) for one in found])
    asked = OwnNumbers(questions=[one.covered for one in found])
    answers, outcome = await ask_nodes(ctx, NUMBERS_OWN, AlertQuestion(), lambda node: asked)
    numbers = [sum(answer.items[place] for answer in answers.values()) for place in range(len(found))]
    outcome.items = [item_of(one, now, count) for one, count in zip(found, numbers, strict=True)]
    outcome.total = len(found)
    return outcome


@operation(
    "POST", "/alerts/silences", params=PostSilence, place=Place.MASTER, item=SilenceItem, require=(CREATE,),
    messages=Messages(all="The silence was created", none="The silence was not created"),
)  # fmt: skip
async def make_silence(ctx: Context, params: PostSilence) -> Outcome:
    """Keep alerts from being delivered and answered for a time."""
    clock, now = ctx.node.clock, ctx.node.clock.now()
    since, until = moment_of(params.body.since, now), moment_of(params.body.until, now)
    if since < in_milliseconds(now):
        raise SecmonError(1776, "the begin is in the past")
    wanted = Silence(
        id=0,
        question=silenced_question(ctx, params),
        group=params.group,
        since=since,
        until=until,
        user=ctx.call.identity.user,
        reason=params.body.reason,
        created_at=0,
    )
    return await change_one(ctx, lambda tx: item_of(create_silence(tx, wanted, clock), now))


@operation(
    "PUT", "/alerts/silences/{silence_id}", params=PutSilence, place=Place.MASTER, item=SilenceItem,
    require=(Require("silences:update", "agent:id", mode="item"),),
    messages=Messages(all="The silence was changed", none="The silence was not changed"),
)  # fmt: skip
async def put_silence(ctx: Context, params: PutSilence) -> Outcome:
    """Prolong or end a silence, or give another reason."""
    until, reason, clock = params.body.until, params.body.reason, ctx.node.clock
    if until is UNSET and reason is UNSET:
        raise SecmonError(4001)
    now = clock.now()
    end = None if isinstance(until, UnsetType) else moment_of(until, now)
    if end is not None and until != "now" and end <= in_milliseconds(now):
        raise SecmonError(1776, "the end is in the past; now ends the silence")
    text = None if isinstance(reason, UnsetType) else reason
    seen = some_agents(ctx)

    def change(tx: WriteTransaction) -> Item:
        silence = permitted_silence(tx, int(params.silence_id), seen)
        return item_of(change_silence(tx, silence, clock, until=end, reason=text), now)

    return await change_one(ctx, change)


@operation(
    "DELETE", "/alerts/silences/{silence_id}", params=DeleteSilence, place=Place.MASTER, item=SilenceItem,
    require=(Require("silences:delete", "agent:id", mode="item"),),
    messages=Messages(all="The silence was deleted", none="The silence was not deleted"),
)  # fmt: skip
async def remove_silence(ctx: Context, params: DeleteSilence) -> Outcome:
    """Delete a silence, as if it had never been: alerts that still wait for a receiver are delivered."""
    seen, now = some_agents(ctx), ctx.node.clock.now()

    def delete(tx: WriteTransaction) -> Item:
        silence = permitted_silence(tx, int(params.silence_id), seen)
        delete_silence(tx, silence)
        return item_of(silence, now)

    return await change_one(ctx, delete)


def silenced_question(ctx: Context, params: Conditions) -> AlertQuestion:
    """The alerts of agents that the caller may silence. Raises 1773 without a filter, 4000 without an agent."""
    some_agents(ctx)
    question = conditions_of(ctx, params)
    levels = question.levels if question.levels != (0, MAX_LEVEL) else None
    if not any((params.agents_list, params.group, question.q, question.search, levels, question.values)):
        raise SecmonError(1773)
    return question
