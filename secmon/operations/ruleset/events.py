"""``POST /events`` and its other name ``POST /event``: events for the analysis engine (analysis-api.md 7).

The API adapter counts requests to both against a limit of their own (conventions.md 9.2).
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.bodies import TOO_LONG
from secmon.security.rbac.authorization import Require

HEADER = "1:API-Webhook:"
"""Type and location of the events."""
MAX_MESSAGE = 65535
"""Bytes of an event with its header."""
MAX_EVENTS = 100

EVENTS = Messages(
    all="The events were handed to the analysis engine",
    some="Some events were not handed to the analysis engine",
    none="No event was handed to the analysis engine",
)


class Events(Struct, frozen=True, forbid_unknown_fields=True):
    """Events as text; an event that is an object is sent as its JSON text."""

    events: Annotated[list[str], Meta(max_length=MAX_EVENTS, extra={TOO_LONG: "Events bulk size exceeded"})]


class PostEvents(Common, frozen=True, kw_only=True):
    """Body of ``POST /events``."""

    body: Events


@operation("POST", "/events", params=PostEvents, require=(Require("event:ingest"),), messages=EVENTS, item=str)
@operation("POST", "/event", params=PostEvents, require=(Require("event:ingest"),), messages=EVENTS, item=str)
async def post_events(ctx: Context, params: PostEvents) -> Outcome:
    """Have events analysed by the node that is asked; those answered as affected are stored for it."""
    outcome = Outcome()
    fitting: list[str] = []
    for event in params.body.events:
        if len(HEADER) + len(event.encode()) > MAX_MESSAGE:
            outcome.fail(SecmonError(1012), event)
        else:
            fitting.append(event)
    if fitting:
        await _store(ctx, fitting, outcome)
    return outcome


async def _store(ctx: Context, events: Sequence[str], outcome: Outcome) -> None:
    """Raises 1010 when the engine does not run; events that it does not take now fail with 1014."""
    analysis = ctx.node.services.analysis
    try:
        if analysis is None:
            raise SecmonError(1121)
        refused = set(await analysis.store([HEADER + event for event in events]))
    except SecmonError as error:
        if error.code in (1013, 1121):
            raise SecmonError(1010) from None
        outcome.fail(SecmonError(error.code, error.extra), *events)
        return
    outcome.items += [event for index, event in enumerate(events) if index not in refused]
    for index in refused:
        outcome.fail(SecmonError(1012), events[index])
