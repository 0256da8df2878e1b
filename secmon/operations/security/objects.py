"""Operations on users, roles, policies and rules: parameters, and listing, changing, deleting and linking."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta

from secmon.cluster.executor import Context
from secmon.cluster.parameters import text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.common.query import Fields, Sort
from secmon.security.items import Item
from secmon.security.rbac.authorization import Grant
from secmon.security.store.transaction import ReadTransaction, WriteTransaction

# Up to 18 digits after leading zeros: at most ``parameters.MAX_NUMBER``.
Number = Annotated[str, text_format("numbers", "0*[0-9]{1,18}"), Meta(max_length=64)]
NumberOrAll = Annotated[str, text_format("numbers_or_all", "0*[0-9]{1,18}|all"), Meta(max_length=64)]
ObjectName = Annotated[str, text_format("names", r"[A-Za-z0-9_\-.%]+"), Meta(max_length=64)]
Position = Annotated[int, Meta(ge=0, description="Place of the first one, from 0; at the end without it.")]

BY_ID = Sort(("id",))
NAMED = Fields(engine="list", sort=("id", "name"), required=("id",))

T = TypeVar("T")
ReadItems = Callable[[ReadTransaction, Iterable[int] | None], Mapping[int, Item]]


async def list_items(ctx: Context, kind: str, missing: int, read: ReadItems) -> Outcome:
    """The objects of ``kind`` that the request names, in its order, or all permitted ones.

    Named ones that do not exist fail with code ``missing``.
    """
    grant = ctx.grant(kind)
    ids = [int(one) for one in grant.ids] if grant.explicit else None

    def found() -> Mapping[int, Item]:
        with ctx.node.security.read() as tx:
            return read(tx, ids)

    items = await asyncio.to_thread(found)
    if ids is None:
        return Outcome(items=[item for number, item in items.items() if str(number) in grant.scope])
    outcome = Outcome(items=[items[number] for number in ids if number in items])
    for number in ids:
        if number not in items:
            outcome.fail(SecmonError(missing), number)
    return outcome


async def change_one(ctx: Context, change: Callable[[WriteTransaction], Item]) -> Outcome:
    """The object created or changed, or its failure; answered when the other nodes have it."""
    outcome = Outcome()

    def work(tx: WriteTransaction) -> None:
        with tx.attempt(outcome.fail):
            outcome.items.append(change(tx))

    await ctx.change_security(work)
    return await confirmed(ctx, outcome)


async def delete_each(
    ctx: Context, kind: str, read: ReadItems, delete: Callable[[WriteTransaction, int], Item]
) -> Outcome:
    """The deleted objects in their former state, by id."""
    grant = ctx.grant(kind)
    outcome = Outcome()

    def work(tx: WriteTransaction) -> None:
        # ``all`` means the objects that exist in this transaction.
        existing = () if grant.explicit else read(tx, None)
        outcome.items = for_each(tx, grant, existing, outcome, lambda number: delete(tx, number))

    await ctx.change_security(work)
    outcome.items.sort(key=lambda item: int(item["id"]))
    return await confirmed(ctx, outcome)


def for_each(
    tx: WriteTransaction, grant: Grant, existing: Iterable[int], outcome: Outcome, work: Callable[[int], T]
) -> list[T]:
    """The results of ``work`` on each id once: those that the request names, or the permitted ones of ``existing``.

    An id that fails leaves no change behind. Failures of ids that the request did not name are left out (rbac.md 7.5).
    """
    done: list[T] = []
    for one in grant.select(map(str, existing)):
        with tx.attempt(outcome.fail if grant.explicit else _leave_out):
            done.append(work(int(one)))
    return done


def _leave_out(error: SecmonError) -> None:
    """The failure of an id that the request did not name."""


async def link_each(
    ctx: Context,
    kind: str,
    *,
    existing: Callable[[WriteTransaction], Sequence[int]],
    link: Callable[[WriteTransaction, int, int], None],
    owner: Callable[[WriteTransaction], Item],
) -> Outcome:
    """Link or unlink each id of ``kind``; the owner once, with the number of links as the total.

    ``existing``: the ids that ``all`` means; raises to refuse the whole request. ``link`` gets the id and the number of
    links before it. ``owner``, called when a link was changed, revokes tokens and returns the owner.
    """
    grant = ctx.grant(kind)
    outcome = Outcome(total=0)

    def work(tx: WriteTransaction) -> None:
        done: list[int] = []

        def one(number: int) -> None:
            link(tx, number, len(done))
            done.append(number)

        for_each(tx, grant, existing(tx), outcome, one)
        if done:
            outcome.items, outcome.total = [owner(tx)], len(done)

    await ctx.change_security(work)
    return await confirmed(ctx, outcome)


async def confirmed(ctx: Context, outcome: Outcome) -> Outcome:
    """``outcome``, once the other nodes have the change; its notes name nodes that have not confirmed it."""
    if outcome.items:
        outcome.notes.extend(await ctx.unconfirmed_nodes())
    return outcome
