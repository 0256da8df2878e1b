"""One message on its way from the journal to the files (ruleset.md 11)."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from secmon.engine.analysis import Engine, Verdict
from secmon.engine.counters import AgentCounts, Tallies
from secmon.engine.event import MANAGER_ID, Event
from secmon.engine.input.predecode import split_message
from secmon.engine.lookahead.codec import Packer
from secmon.engine.lookahead.prepare import KEPT, Prepared, prepare
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Labels
from secmon.engine.output.outputs import Outputs
from secmon.engine.output.statistics import Statistics, StatisticsSettings
from secmon.engine.output.text import complete, is_firewall
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset

_INTEGRITY = "8"
FAILED = Rule(
    10,
    8,
    "",
    0,
    description=b"An event could not be analysed: the log of its node says why.",
    groups=b"analysis_failure,",
)
"""The internal rule of events whose analysis failed: whoever finds out how to cause that must not be hidden by it."""


@dataclass(slots=True)
class Pipeline:
    """The engine with all around it. For one thread, which calls :meth:`turn` before each batch."""

    engine: Engine
    documents: Documents
    outputs: Outputs
    statistics: Statistics
    excess: StatisticsSettings
    tallies: Tallies
    labels: Callable[[str], Labels | None]
    log_firewall: bool
    incomplete: int = 0
    """Events of firewalls that lack what their line shows: they go no further."""
    packer: Packer = field(init=False)
    by_others: int = 0
    """Events that came with what another process has found out about them."""
    asked_again: int = 0
    """Those of them whose rules look at what happened before."""

    def __post_init__(self) -> None:
        self.packer = Packer(self.engine.ruleset)

    def turn(self, now: datetime) -> None:
        """The files and the hour of ``now``, local time. Raises OSError; to be repeated then."""
        self.outputs.turn(now)
        if self.statistics.turn(now):
            self.engine.state.fired.clear()
        self.tallies.whole.written["stats"] = self.statistics.written

    def handle(self, data: bytes, moment: datetime, ahead: bytes | Prepared | None = None) -> None:
        """Analyse one message that was received at ``moment``, local time.

        ``ahead``: what :func:`prepare` has made of it, or what another process has packed of it, with the same ruleset.
        """
        self.tallies.received += 1
        self.tallies.bytes += len(data)
        self.statistics.received(1)
        if isinstance(ahead, bytes) and ahead:
            prepared = self.packer.unpack(ahead, moment)
            self.by_others += 1
            self.asked_again += prepared.event is not None and not prepared.walked
        else:
            prepared = ahead or prepare(self.engine, data, moment)
        self._finish(prepared, moment)

    def rescue(self, data: bytes, moment: datetime) -> None:
        """Write a message whose analysis failed: as it came, by the rule :data:`FAILED`."""
        message = split_message(data)
        if message is None or message.queue in KEPT:
            return
        self._write(Verdict(self.engine.bare(message, moment), FAILED, alert=True), labels=False)

    def _finish(self, prepared: Prepared, moment: datetime) -> None:
        """Count, judge, remember and write."""
        tallies, queue, event = self.tallies, prepared.queue, prepared.event
        if not queue:
            tallies.malformed += 1
            return
        if queue == _INTEGRITY:
            self.statistics.syscheck()
        if queue in KEPT:
            tallies.kept += 1
            return
        tallies.whole.decoded[prepared.source] += 1
        agent = None if prepared.agent_id == MANAGER_ID else tallies.of(prepared.agent_id, int(moment.timestamp()))
        if agent is not None:
            agent.decoded[prepared.source] = agent.decoded.get(prepared.source, 0) + 1
        if event is not None:
            self.engine.state.accumulator.lend(event)
        if event is None or self._firewall(event, agent):
            self._excess(moment)
            self._judge(prepared)
            if agent is not None:
                agent.processed += 1

    def swap(self, ruleset: Ruleset, host: bytes) -> None:
        """Go on with another ruleset: memories of rules that are the same stay, those of others go."""
        old, state = self.engine.ruleset, self.engine.state
        forget_gone(state, old, ruleset)
        self.documents.forget()
        self.engine = Engine(ruleset, state, host=host)
        self.packer = Packer(ruleset)

    def _firewall(self, event: Event, agent: AgentCounts | None) -> bool:
        """Whether the event goes on to the rules."""
        if not is_firewall(event):
            return True
        self.statistics.firewall()
        if not self.log_firewall:
            return True
        if not complete(event):
            self.incomplete += 1
            return False
        self.outputs.firewall(event)
        self.tallies.whole.written["firewall"] += 1
        if agent is not None:
            agent.firewall += 1
        return True

    def _excess(self, moment: datetime) -> None:
        """Count the event; tell when they are too many."""
        told = self.statistics.processed(moment)
        if told is None:
            return
        text, rule = told.encode(), self.excess.rule()
        event = Event("1", b"ossec-analysisd", text, text, moment, int(moment.timestamp()), rule=rule)
        self._write(Verdict(event, rule, alert=True))

    def _judge(self, prepared: Prepared) -> None:
        event, found, engine = prepared.event, prepared.found, self.engine
        self.tallies.whole.processed += 1
        if event is None:  # its rule writes and remembers nothing
            if found is not None:
                engine.count(found.rule)
                self.statistics.selected(found.rule)
            return
        verdict = engine.conclude(event, found if prepared.walked else engine.find(event, way=prepared.way))
        if verdict.rule is not None:
            self.statistics.selected(verdict.rule)
        if verdict.alert or self.outputs.archives:
            self._write(verdict)

    def _write(self, verdict: Verdict, *, labels: bool = True) -> None:
        event = verdict.event
        self.outputs.write(verdict, self.labels(event.agent_id) if labels and event.from_agent else None)
        written = self.tallies.whole.written
        written["alerts"] += verdict.alert
        written["archives"] += self.outputs.archives
        agent = self.tallies.of(event.agent_id, event.received)
        if agent is not None:
            agent.alerts += verdict.alert
            agent.archives += self.outputs.archives


def forget_gone(state: State, old: Ruleset, new: Ruleset) -> None:
    """Drop what ``state`` remembers of rules that ``new`` does not have, or has with other memories.

    Events that stay remembered let go of the old ruleset, which could not be freed otherwise.
    """
    known, before = new.rules.by_id, old.rules.by_id
    for memory in (state.fired, state.silent_since):
        for gone in [rule for rule in memory if rule not in known]:
            del memory[gone]
    for number in list(state.composites):
        now, then = (rule.composite if (rule := rules.get(number)) else None for rules in (known, before))
        if now is None or then is None or not now.counts_alike(then):
            del state.composites[number]
    for event in state.recent:
        event.rule = event.decoder = None


class Credits:
    """The bound of events a second (ruleset.md 11): what is taken comes back ``timeframe`` seconds later."""

    def __init__(self, maximum: int, timeframe: int) -> None:
        """``maximum`` events a second, 0: no bound; ``timeframe`` in seconds."""
        self.limit = maximum * timeframe
        self.available = self.limit
        self.seconds_over = 0
        """Seconds in which somebody had to wait."""
        self._timeframe = timeframe
        self._spent: deque[tuple[int, int]] = deque()
        self._over = -1

    def take(self, wanted: int, now: float) -> int:
        """How many of ``wanted`` events may go on at ``now``, monotonic seconds."""
        if not self.limit:
            return wanted
        second = int(now)
        while self._spent and self._spent[0][0] <= second - self._timeframe:
            self.available += self._spent.popleft()[1]
        taken = min(wanted, self.available)
        self.available -= taken
        if taken and self._spent and self._spent[-1][0] == second:
            self._spent[-1] = (second, self._spent[-1][1] + taken)
        elif taken:
            self._spent.append((second, taken))
        if not taken and wanted and second != self._over:
            self._over = second
            self.seconds_over += 1
        return taken
