"""The part of the analysis that needs no state: done ahead of an event's turn, by any process.

State belongs to the analysis thread, which takes the events in their order. Predecoding, decoding and most of the
search through the rules need no state. :func:`look_ahead` goes as far as it can: a condition that reads state ends it,
and the search resumes at that rule when it is the event's turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from secmon.engine.engine import Engine
from secmon.engine.event import MANAGER_ID, Event
from secmon.engine.event_counters import component_of
from secmon.engine.input.predecode import agent_of, split_message
from secmon.engine.memory.state import NoState, State, StateNeeded
from secmon.engine.output.text_records import is_firewall
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Selection
from secmon.engine.ruleset.compiled import Ruleset

INVENTORY = frozenset("589dep")
"""Types of messages that ``secmon-db`` decodes; what the rules are to see comes back in its journal."""
OTHER_CONSUMERS = INVENTORY | frozenset("3u")
"""Types of messages that other consumers read from the journal themselves: no decoder sees them."""


@dataclass(slots=True)
class Lookahead:
    """What is known of a message before it changes any counter, state or output.

    ``queue`` is empty when the message is malformed. ``component``: what it is counted as, if it is decoded.
    ``event`` is None when only counters will change. ``evaluated``: ``selection`` is the result of the rules;
    otherwise ``resume`` is the path from a root rule down to the first rule that was not evaluated. ``beside``: the
    selections of side trees; None: they were not evaluated.
    """

    queue: str
    component: str = ""
    agent_id: str = MANAGER_ID
    event: Event | None = None
    evaluated: bool = False
    selection: Selection | None = None
    resume: Sequence[Rule] = ()
    beside: Sequence[Selection] | None = None


def decode_message(engine: Engine, data: bytes, moment: datetime) -> Lookahead:
    """Split a message and decode it. ``moment``: when it was received, local time with its zone."""
    message = split_message(data)
    if message is None:
        return Lookahead("")
    queue = message.queue
    if queue in INVENTORY:
        return Lookahead(queue, component_of(queue, message.location), agent_of(message.location))
    if queue in OTHER_CONSUMERS:
        return Lookahead(queue)
    event = engine.decode_stateless(message, moment)
    return Lookahead(queue, component_of(queue, message.location), event.agent_id, event)


def look_ahead(engine: Engine, data: bytes, moment: datetime, *, archiving: bool) -> Lookahead:
    """:func:`decode_message`, then the rules as far as they need no state. ``engine``: of :func:`stateless_engine`.

    ``archiving``: events without alerts are written too.
    """
    ahead = decode_message(engine, data, moment)
    event = ahead.event
    if event is None or (event.decoder is not None and event.decoder.accumulate):
        return ahead  # the accumulator may still add fields that rules look at
    ahead.beside = _beside(engine, event)
    try:
        selection = engine.select_rule(event)
    except StateNeeded as stop:
        ahead.resume = stop.path[::-1]
        return ahead
    ahead.evaluated, ahead.selection = True, selection
    silent = (selection is None or selection.rule.level == 0) and not archiving and not is_firewall(event)
    if silent and ahead.beside == []:
        ahead.event = None
    return ahead


def _beside(engine: Engine, event: Event) -> list[Selection] | None:
    try:
        return [one.selection for one in engine.select_beside(event)]
    except StateNeeded:
        return None


def stateless_engine(ruleset: Ruleset, host: bytes) -> Engine:
    """An engine for :func:`look_ahead`: each access to its state raises StateNeeded."""
    no_state: Any = NoState()
    return Engine(ruleset, cast(State, no_state), host=host)
