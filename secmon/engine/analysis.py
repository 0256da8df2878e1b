"""One event through the whole engine: decoder, rule, and what follows from it (ruleset.md 6.7, 11)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from secmon.engine.decoders import eventchannel
from secmon.engine.decoders.eventchannel import decode_eventchannel
from secmon.engine.event import Event, Key
from secmon.engine.input.predecode import Message, predecode
from secmon.engine.memory.state import State
from secmon.engine.rules.evaluate import Selection, Trace, select
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset

EVENT_CHANNEL = "f"
"""Queue of the Windows event channel."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an event. ``alert``: it is to be written; ``rule`` is the one shown."""

    event: Event
    rule: Rule | None
    alert: bool
    fired: int = 0
    """How often the rule has fired since the last hour change, this time included."""


class Engine:
    """A ruleset at work. The ruleset is shared and never changes; the state is this engine's own."""

    def __init__(self, ruleset: Ruleset, state: State, *, host: bytes, session: bool = False) -> None:
        """``session``: of logtest, where a silenced rule is shown as it is (analysis-api.md 6.3)."""
        self.ruleset, self.state = ruleset, state
        self._host, self._session = host, session
        self._windows = ruleset.decoders.internal[eventchannel.NAME]

    def process(self, message: Message, time: datetime, trace: Trace | None = None) -> Verdict:
        """Analyse one message that is processed at ``time``, local time with its zone."""
        return self.judge(self.decode(message, time), trace)

    def decode(self, message: Message, time: datetime) -> Event:
        """All that comes before the rules."""
        event = self.read(message, time)
        self.state.accumulator.lend(event)
        return event

    def read(self, message: Message, time: datetime) -> Event:
        """What the message itself says: :meth:`decode` without a look at the state."""
        event = self.bare(message, time)
        windows = self._windows if message.queue == EVENT_CHANNEL and not self._session else None
        if windows is None or not decode_eventchannel(event, windows):
            self.ruleset.walk.decode(event)
        return event

    def bare(self, message: Message, time: datetime) -> Event:
        """The event without what decoders find in it."""
        event = predecode(message, time=time, host=self._host)
        event.field_limit = self.ruleset.settings.field_limit
        return event

    def judge(self, event: Event, trace: Trace | None = None) -> Verdict:
        """Rules for an event that is decoded already."""
        return self.conclude(event, self.find(event, trace))

    def find(self, event: Event, trace: Trace | None = None, way: Sequence[Rule] = ()) -> Selection | None:
        """The rule of an event; nothing changes but what conditions remember. ``way``: as for ``select``."""
        if event.bound_rule is None:
            return select(self.ruleset.rules.roots, event, self.state, trace, way)
        rule = self.ruleset.rules.by_id.get(event.bound_rule)
        return None if rule is None else Selection(rule, None)

    def conclude(self, event: Event, found: Selection | None) -> Verdict:
        """What follows from the rule that was found."""
        if found is None:
            return Verdict(event, None, alert=False)
        self.count(found.rule)
        return self._consequences(event, found)

    def count(self, rule: Rule) -> None:
        """A rule was found. All that follows from one of level 0, unless the event is archived."""
        self.state.fired[rule.id] = self.state.fired.get(rule.id, 0) + 1

    def _consequences(self, event: Event, found: Selection) -> Verdict:
        """Silence, muting, memory (ruleset.md 6.7)."""
        rule, state = found.rule, self.state
        event.rule = rule
        if rule.level == 0:
            return self._verdict(event, alert=False)
        if rule.ignore and self._silent(rule, event):
            if self._session or found.previous is None:
                return self._verdict(event, alert=False)
            event.rule = rule = found.previous
        if rule.check_ignored and state.muted.muted(event, rule.check_ignored):
            return self._verdict(event, alert=False)
        if rule.ignored_fields:
            state.muted.mute(event, rule.ignored_fields)
        event.places = 1 if rule.watchers else rule.places
        state.remember(event, _watchers(rule, event))
        return self._verdict(event, alert=rule.write)

    def _silent(self, rule: Rule, event: Event) -> bool:
        """Whether the rule fired within its ``ignore`` seconds; if not, they begin now."""
        since = self.state.silent_since.get(rule.id)
        if since is not None and event.received - since < rule.ignore:
            return True
        self.state.silent_since[rule.id] = event.received
        return False

    def _verdict(self, event: Event, *, alert: bool) -> Verdict:
        assert event.rule is not None, "a verdict names a rule"
        return Verdict(event, event.rule, alert, self.state.fired.get(event.rule.id, 0))


def _watchers(rule: Rule, event: Event) -> Iterator[tuple[int, Key]]:
    """The composites that count the events of ``rule``, and under which key each counts this one."""
    for watcher in rule.watchers or rule.feeds:
        key = watcher.composite.key(event) if watcher.composite is not None else None
        if key is not None:
            yield watcher.id, key
