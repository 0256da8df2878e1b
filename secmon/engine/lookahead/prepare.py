"""What can be known of a message without looking at what happened before: done ahead of its turn, by any process.

State belongs to one thread, which goes through the events in their order. Predecoding, decoding and most of the way
through the rules need no state. :func:`look_ahead` goes as far as it gets: a condition that asks for state ends it, and
the search goes on from there when it is the event's turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from secmon.engine.analysis import Engine
from secmon.engine.counters import component
from secmon.engine.event import MANAGER_ID, Event
from secmon.engine.input.predecode import split_message
from secmon.engine.memory.state import NoState, State, StateNeeded
from secmon.engine.output.text import is_firewall
from secmon.engine.rules.evaluate import Selection
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset

KEPT = frozenset("3589depu")
"""Types of messages that are not for the generic decoders: whoever consumes them reads the journal himself."""


@dataclass(slots=True)
class Prepared:
    """A message before anything was counted, remembered or written because of it.

    ``queue`` is empty when the message is malformed. ``source``: what it is counted as. ``event``: what may be written
    or remembered; None when there is nothing but counters to change. ``walked``: ``found`` is what the rules say;
    if not, ``way`` leads to the first rule that is to be asked, from its root.
    """

    queue: str
    source: str = ""
    agent_id: str = MANAGER_ID
    event: Event | None = None
    walked: bool = False
    found: Selection | None = None
    way: Sequence[Rule] = ()


def prepare(engine: Engine, data: bytes, moment: datetime) -> Prepared:
    """Take a message apart and decode it. ``moment``: when it was received, local time with its zone."""
    message = split_message(data)
    if message is None:
        return Prepared("")
    queue = message.queue
    if queue in KEPT:
        return Prepared(queue)
    event = engine.read(message, moment)
    return Prepared(queue, component(queue, message.location), event.agent_id, event)


def look_ahead(engine: Engine, data: bytes, moment: datetime, *, everything: bool) -> Prepared:
    """:func:`prepare`, and the rules as far as they need no state. ``engine`` is one of :func:`stateless`.

    ``everything``: all events are written, alerts or not.
    """
    prepared = prepare(engine, data, moment)
    event = prepared.event
    if event is None or (event.decoder is not None and event.decoder.accumulate):
        return prepared  # others may lend it fields that rules look at
    try:
        found = engine.find(event)
    except StateNeeded as stop:
        prepared.way = stop.way[::-1]
        return prepared
    prepared.walked, prepared.found = True, found
    if (found is None or found.rule.level == 0) and not everything and not is_firewall(event):
        prepared.event = None
    return prepared


def stateless(ruleset: Ruleset, host: bytes) -> Engine:
    """An engine for :func:`look_ahead`."""
    nothing: Any = NoState()
    return Engine(ruleset, cast(State, nothing), host=host)
