"""One message on its way from the journal to the output files (ruleset.md 11)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from secmon.engine.engine import Engine, Verdict
from secmon.engine.event import MANAGER_ID, Event
from secmon.engine.event_counters import AgentCounts, EventCounters
from secmon.engine.input.decoded_events import read_decoded_event
from secmon.engine.input.predecode import split_message
from secmon.engine.lookahead.codec import LookaheadCodec
from secmon.engine.lookahead.stateless import OTHER_CONSUMERS, Lookahead, decode_message
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Labels
from secmon.engine.output.event_statistics import EventStatistics, StatisticsSettings
from secmon.engine.output.outputs import Outputs
from secmon.engine.output.text_records import complete, is_firewall
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Selection
from secmon.engine.rules.side_trees import SideSelection
from secmon.engine.ruleset.compiled import Ruleset

_SYSCHECK = "8"
FAILED = Rule(
    10,
    8,
    "",
    0,
    description=b"An event could not be analysed: the log of its node says why.",
    groups=b"analysis_failure,",
)
"""The internal rule of events whose analysis failed: an event that makes it fail must not stay without an alert."""


@dataclass(slots=True)
class Pipeline:
    """The engine with its counters, statistics and outputs. For one thread.

    The thread calls :meth:`begin_batch` before each batch.
    """

    engine: Engine
    documents: Documents
    outputs: Outputs
    statistics: EventStatistics
    statistics_settings: StatisticsSettings
    event_counters: EventCounters
    labels: Callable[[str], Labels | None]
    log_firewall: bool
    incomplete: int = 0
    """Firewall events that lack a field of their line in firewall.log: they are dropped."""
    codec: LookaheadCodec = field(init=False)
    looked_ahead: int = 0
    """Events that came with the result of a decoder process."""
    resumed: int = 0
    """Those of them whose rules read state, so that the search was resumed here."""

    def __post_init__(self) -> None:
        self.codec = LookaheadCodec(self.engine.ruleset)

    def begin_batch(self, now: datetime) -> None:
        """Rotate files and end hours that are due at ``now``, local time. Raises OSError; then call it again."""
        self.outputs.rotate_due(now)
        if self.statistics.begin_hour(now):
            self.engine.state.fired.clear()
        self.event_counters.total.written["stats"] = self.statistics.written

    def handle(self, data: bytes, moment: datetime, ahead: bytes | Lookahead | None = None) -> None:
        """Analyse one message that was received at ``moment``, local time.

        ``ahead``: the result of :func:`decode_message`, or the encoded one of a decoder process, for this ruleset.
        """
        self.event_counters.received += 1
        self.event_counters.bytes += len(data)
        self.statistics.received(1)
        if isinstance(ahead, bytes) and ahead:
            known = self.codec.decode(ahead, moment)
            self.looked_ahead += 1
            self.resumed += known.event is not None and not known.evaluated
        else:
            known = ahead or decode_message(self.engine, data, moment)
        self._finish(known, moment)

    def handle_decoded(self, data: bytes, moment: datetime) -> None:
        """Apply the rules to one event of the inventory's journal; its message was counted when it was received."""
        event = read_decoded_event(data, self.engine.ruleset, moment)
        if event is None:
            self.event_counters.malformed += 1
            return
        agent = self.event_counters.of(event.agent_id, event.received)
        self._process(Lookahead(event.queue, agent_id=event.agent_id, event=event), moment, agent)

    def write_unanalysed(self, data: bytes, moment: datetime, *, decoded: bool = False) -> None:
        """Write a message, or a decoded event, whose analysis failed as it came, with an alert of :data:`FAILED`."""
        if decoded:
            event = read_decoded_event(data, self.engine.ruleset, moment)
        else:
            message = split_message(data)
            known = message is not None and message.queue not in OTHER_CONSUMERS
            event = self.engine.predecode(message, moment) if message is not None and known else None
        if event is not None:
            self._write(Verdict(event, FAILED, alert=True), labels=False)

    def _finish(self, ahead: Lookahead, moment: datetime) -> None:
        """All that changes counters, state and outputs."""
        counters, queue, event = self.event_counters, ahead.queue, ahead.event
        if not queue:
            counters.malformed += 1
            return
        if queue == _SYSCHECK:
            self.statistics.syscheck()
        agent = None if ahead.agent_id == MANAGER_ID else counters.of(ahead.agent_id, int(moment.timestamp()))
        if ahead.component:
            counters.total.decoded[ahead.component] += 1
            if agent is not None:
                agent.decoded[ahead.component] = agent.decoded.get(ahead.component, 0) + 1
        if queue in OTHER_CONSUMERS:
            counters.for_others += 1
            return
        if event is not None:
            self.engine.state.accumulator.apply(event)
        if event is None or self._firewall(event, agent):
            self._process(ahead, moment, agent)

    def _process(self, ahead: Lookahead, moment: datetime, agent: AgentCounts | None) -> None:
        """Count an event, and apply the rules."""
        self._count_processed(moment)
        self._apply_rules(ahead)
        if agent is not None:
            agent.processed += 1

    def swap(self, ruleset: Ruleset, host: bytes) -> None:
        """Use another ruleset from now on. Memories of rules that count the same events are kept."""
        old, state = self.engine.ruleset, self.engine.state
        forget_removed_rules(state, old, ruleset)
        if state.cluster is not None:
            state.cluster.use(ruleset.rules.by_id.values())
        self.documents.forget()
        self.outputs.forget()
        self.engine = Engine(ruleset, state, host=host)
        self.codec = LookaheadCodec(ruleset)

    def _firewall(self, event: Event, agent: AgentCounts | None) -> bool:
        """Write the line of a firewall event; whether the rules see the event."""
        if not is_firewall(event):
            return True
        self.statistics.firewall()
        if not self.log_firewall:
            return True
        if not complete(event):
            self.incomplete += 1
            return False
        self.outputs.firewall(event)
        self.event_counters.total.written["firewall"] += 1
        if agent is not None:
            agent.firewall += 1
        return True

    def _count_processed(self, moment: datetime) -> None:
        """Count an event; write an alert when there are far more than usual."""
        excess = self.statistics.processed(moment)
        if excess is None:
            return
        text, rule = excess.encode(), self.statistics_settings.rule()
        event = Event("1", b"ossec-analysisd", text, text, moment, int(moment.timestamp()), rule=rule)
        self._write(Verdict(event, rule, alert=True))

    def _apply_rules(self, ahead: Lookahead) -> None:
        event, selection, engine = ahead.event, ahead.selection, self.engine
        self.event_counters.total.processed += 1
        if event is None:  # no rule, or one of level 0: nothing to remember or write
            if selection is not None:
                engine.count(selection.rule)
                self.statistics.selected(selection.rule)
            return
        verdict = engine.apply(event, selection if ahead.evaluated else engine.select_rule(event, resume=ahead.resume))
        if verdict.rule is not None:
            self.statistics.selected(verdict.rule)
        if verdict.alert or verdict.answered or self.outputs.archives:
            self._write(verdict)
        self._apply_side_trees(event, ahead.beside)

    def _apply_side_trees(self, event: Event, known: Sequence[Selection] | None) -> None:
        """Their alerts, after that of the ordinary rules. ``known``: what a decoder process has selected."""
        selections: Iterable[SideSelection] = (
            self.engine.select_beside(event) if known is None else (SideSelection(event.twin(), one) for one in known)
        )
        for verdict in self.engine.apply_beside(selections):
            assert verdict.rule is not None, "side trees select rules"
            self.statistics.selected(verdict.rule)
            if verdict.alert or verdict.answered:
                self._write(verdict, archive=False)

    def _write(self, verdict: Verdict, *, labels: bool = True, archive: bool = True) -> None:
        event, archived = verdict.event, archive and self.outputs.archives
        self.outputs.write(
            verdict, self.labels(event.agent_id) if labels and event.from_agent else None, archive=archive
        )
        written = self.event_counters.total.written
        written["alerts"] += verdict.alert
        written["archives"] += archived
        agent = self.event_counters.of(event.agent_id, event.received)
        if agent is not None:
            agent.alerts += verdict.alert
            agent.archives += archived


def forget_removed_rules(state: State, old: Ruleset, new: Ruleset) -> None:
    """Drop the state of rules that ``new`` does not have, and of composites that count other events there.

    Remembered events drop their references to the old ruleset, which could not be freed otherwise.
    """
    after, before = new.rules.by_id, old.rules.by_id
    for by_rule in (state.fired, state.ignored_since):
        for removed in [rule for rule in by_rule if rule not in after]:
            del by_rule[removed]
    for number in list(state.composites):
        now, then = (rule.composite if (rule := rules.get(number)) else None for rules in (after, before))
        if now is None or then is None or not now.counts_same_events(then):
            del state.composites[number]
    for event in state.recent:
        event.rule = event.decoder = None
