"""One event through decoders and rules, and the effects of its rule (ruleset.md 6.7, 11)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from secmon.engine.decoders import eventchannel
from secmon.engine.decoders.eventchannel import decode_eventchannel
from secmon.engine.event import CompositeKey, Contrast, Event
from secmon.engine.input.predecode import Message, predecode
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Selection, Trace, select
from secmon.engine.rules.side_trees import SideSelection
from secmon.engine.ruleset.compiled import Ruleset

EVENT_CHANNEL = "f"
"""Message type of the Windows event channel."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one event. ``rule`` is the one shown; ``alert``: an alert is written."""

    event: Event
    rule: Rule | None
    alert: bool
    fired: int = 0
    """How often the rule has fired in this hour, this time included."""
    beside: tuple["Verdict", ...] = ()
    """Those of side trees, each on a twin of the event."""
    answered: bool = False
    """Whether active responses may answer the event, although no alert of it may be written."""


class Engine:
    """A ruleset at work. The ruleset is shared and never changes; the state is this engine's own."""

    def __init__(self, ruleset: Ruleset, state: State, *, host: bytes, session: bool = False) -> None:
        """``session``: of logtest, where a rule within its ``ignore`` time is shown as it is (analysis-api.md 6.3)."""
        self.ruleset, self.state = ruleset, state
        self._host, self._session = host, session
        self._event_channel = ruleset.decoders.internal[eventchannel.NAME]

    def process(self, message: Message, time: datetime, trace: Trace | None = None) -> Verdict:
        """Analyse one message at ``time``, local time with its zone."""
        return self.evaluate(self.decode(message, time), trace)

    def decode(self, message: Message, time: datetime) -> Event:
        """Predecode and decode a message, and complete its fields from earlier events (``accumulate``)."""
        event = self.decode_stateless(message, time)
        self.state.accumulator.apply(event)
        return event

    def decode_stateless(self, message: Message, time: datetime) -> Event:
        """:meth:`decode` without the accumulator."""
        event = self.predecode(message, time)
        channel = self._event_channel if message.queue == EVENT_CHANNEL and not self._session else None
        if channel is None or not decode_eventchannel(event, channel):
            self.ruleset.decoder_tree.decode(event)
        return event

    def predecode(self, message: Message, time: datetime) -> Event:
        """The event of a message before any decoder."""
        event = predecode(message, time=time, host=self._host)
        event.field_limit = self.ruleset.settings.field_limit
        return event

    def evaluate(self, event: Event, trace: Trace | None = None) -> Verdict:
        """Apply the rules to a decoded event."""
        verdict = self.apply(event, self.select_rule(event, trace))
        beside = self.apply_beside(self.select_beside(event, trace))
        return replace(verdict, beside=beside) if beside else verdict

    def select_rule(self, event: Event, trace: Trace | None = None, resume: Sequence[Rule] = ()) -> Selection | None:
        """The rule of an event. Only conditions change state. ``resume``: as for :func:`select`."""
        if event.bound_rule is None:
            return select(self.ruleset.rules.roots, event, self.state, trace, resume)
        rule = self.ruleset.rules.by_id.get(event.bound_rule)
        return None if rule is None else Selection(rule, None)

    def select_beside(self, event: Event, trace: Trace | None = None) -> Iterable[SideSelection]:
        """The rules that side trees select for an event, one after the other as they are taken."""
        trees = self.ruleset.side_trees
        return trees.select(event, self.state, trace) if trees and event.bound_rule is None else ()

    def apply_beside(self, found: Iterable[SideSelection]) -> tuple[Verdict, ...]:
        """:meth:`apply` what side trees have selected."""
        return tuple([self.apply(twin, selection) for twin, selection in found])

    def apply(self, event: Event, selection: Selection | None) -> Verdict:
        """Count the selected rule and update the state by it."""
        if selection is None:
            return Verdict(event, None, alert=False)
        self.count(selection.rule)
        return self._effects(event, selection)

    def count(self, rule: Rule) -> None:
        """Count a selection. A rule of level 0 has no other effect, unless the event is archived."""
        self.state.fired[rule.id] = self.state.fired.get(rule.id, 0) + 1

    def _effects(self, event: Event, selection: Selection) -> Verdict:
        """``ignore`` times, ignored keys, memories of composites (ruleset.md 6.7)."""
        rule, state = selection.rule, self.state
        event.rule = rule
        if rule.level == 0:
            return self._verdict(event, alert=False)
        if rule.ignore and self._within_ignore_time(rule, event):
            if self._session or selection.previous is None:
                return self._verdict(event, alert=False)
            event.rule = rule = selection.previous
        if rule.check_ignored and state.ignored_keys.contains(event, rule.check_ignored):
            return self._verdict(event, alert=False)
        if rule.ignored_fields:
            state.ignored_keys.add(event, rule.ignored_fields)
        event.rule_id = rule.id
        event.occurrences = 1 if rule.composites_by_id else rule.occurrences
        state.remember(event, _composite_keys(rule, event))
        if rule.composites_in_cluster and state.cluster is not None:
            state.cluster.remember(event, rule.composites_in_cluster)
        return self._verdict(event, alert=rule.write, answered=rule.active_response)

    def _within_ignore_time(self, rule: Rule, event: Event) -> bool:
        """Whether the rule fired less than ``ignore`` seconds ago; otherwise that time starts now."""
        since = self.state.ignored_since.get(rule.id)
        if since is not None and event.received - since < rule.ignore:
            return True
        self.state.ignored_since[rule.id] = event.received
        return False

    def _verdict(self, event: Event, *, alert: bool, answered: bool = False) -> Verdict:
        assert event.rule is not None, "a verdict names a rule"
        return Verdict(event, event.rule, alert, self.state.fired.get(event.rule.id, 0), answered=answered)


def _composite_keys(rule: Rule, event: Event) -> Iterator[tuple[int, CompositeKey, Contrast]]:
    """The composites that count events of ``rule``, by id, and the values by which each counts this event."""
    for one in rule.composites_by_id or rule.composites_by_group:
        key = one.composite.key(event) if one.composite is not None else None
        if one.composite is not None and key is not None:
            yield one.id, key, one.composite.contrast(event)
