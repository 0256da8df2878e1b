"""Nodes, a database, delays, pauses, cuts, lost answers, clocks that jump: one writer at a time, a master at last.

The decisions and what a node knows are the product's; the database and the way to it are models.
"""

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from secmon.cluster.leadership.decide import (
    Claim,
    Follow,
    Observe,
    Renew,
    Resign,
    Stay,
    StepDown,
    Suspend,
    Transition,
    decide,
)
from secmon.cluster.leadership.snapshot import Resignation, Snapshot, Timing
from secmon.cluster.leadership.term import Term, TermRow

TIMING = Timing()
NAMES = ("a", "b", "c")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = TermRow(Term(0, "0", "", "", 0), EPOCH, EPOCH, 10, False, False, "", "")


@dataclass
class Database:
    """The row, as the statements of ``terms`` read and change it. ``writes``: open transactions by their terms."""

    row: TermRow = FIRST
    now: datetime = EPOCH
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    writes: list[Term] = field(default_factory=list)
    committed: list[Term] = field(default_factory=list)

    def look(self) -> TermRow:
        ttl = timedelta(seconds=self.row.ttl_seconds)
        expired = self.row.renewed + ttl <= self.now or self.row.renewed > self.now + ttl
        return self._changed(expired=expired)

    def prove(self, held: Term) -> bool:
        return held == self.row.term

    def claim(self, seen: Term, by: str, above: int) -> Term | None:
        """None also while it would wait for a write: the attempt is over before that."""
        row = self.look()
        free = row.expired or row.resigned or row.term.holder in ("", by) or row.term.number < above
        if not self.prove(seen) or not free or self.writes:
            return None
        new = Term(max(seen.number, above) + 1, str(next(self.ids)), by, "", 0)
        self.row = TermRow(new, self.now, self.now, 10, False, False, "", "")
        return new

    def renew(self, held: Term) -> bool:
        done = self.prove(held) and not self.row.resigned
        self.row = self._changed(renewed=self.now) if done else self.row
        return done

    def resign(self, held: Term, successor: str) -> None:
        if self.prove(held):
            self.row = self._changed(resigned=True, successor=successor)

    def _changed(self, **values: object) -> TermRow:
        fields = {name: getattr(self.row, name) for name in TermRow.__struct_fields__}
        return TermRow(**{**fields, **values})


@dataclass
class ModelNode:
    """A node, its own clock, and the attempt that is under way."""

    name: str
    clock: float
    known: Snapshot
    pending: Transition | None = None
    sent: float = 0.0
    answer: "tuple[TermRow, object] | None" = None
    cut: bool = False
    writing: Term | None = None

    @classmethod
    def started(cls, name: str, clock: float, known: Term | None = None) -> "ModelNode":
        return cls(name, clock, Snapshot(node=name, obstacle="", timing=TIMING, next_contact=clock, known=known))

    @property
    def acts_for(self) -> Term | None:
        """The term under which it would write."""
        return self.known.known if self.known.holding else None

    def step(self) -> None:
        """Decide, and send what there is to send."""
        if self.pending is not None:
            return
        for _ in range(10):
            match decide(self.known, self.clock):
                case Follow(term):
                    self.known = self.known.following(term)
                case StepDown():
                    self.known = self.known.stepped_down()
                case Suspend():
                    self.known = replace(self.known, suspended=True)
                case Stay():
                    return
                case Observe() | Renew() | Claim() | Resign() as attempt:
                    self.pending, self.sent, self.answer = attempt, self.clock, None
                    self.known = replace(self.known, next_contact=self.clock + TIMING.contact)
                    return
        raise AssertionError("it does not come to rest")

    def reach(self, database: Database) -> None:
        """What was sent arrives."""
        if self.pending is None or self.answer is not None or self.cut:
            return
        held = self.known.known
        done: object = None
        match self.pending:
            case Renew() if held is not None:
                done = database.renew(held)
            case Claim(seen):
                done = database.claim(seen, self.name, self.known.highest)
            case Resign(successor) if held is not None:
                database.resign(held, successor)
        self.answer = database.look(), done

    def hear(self) -> None:
        """The answer arrives in time, or there is none."""
        attempt, self.pending = self.pending, None
        late = self.clock - self.sent > TIMING.attempt
        if attempt is None:
            return
        if self.answer is None or self.cut or late:
            self.known = self.known.unanswered()
            return
        row, done = self.answer
        self.known = self.known.read(row, self.clock)
        if isinstance(attempt, Renew) and done:
            self.known = self.known.renewed_at(self.sent)
        if isinstance(attempt, Claim) and isinstance(done, Term):
            self.known = self.known.begun(done, self.sent)


class Cluster(RuleBasedStateMachine):
    """Any order of steps, messages, writes and faults."""

    nodes = st.sampled_from(NAMES)

    @initialize(offsets=st.tuples(*(st.floats(0, 1e6) for _ in NAMES)))
    def start(self, offsets: tuple[float, ...]) -> None:
        self.database = Database()
        self.members = {name: ModelNode.started(name, offset) for name, offset in zip(NAMES, offsets, strict=True)}

    @rule(name=nodes)
    def step(self, name: str) -> None:
        self.members[name].step()

    @rule(name=nodes)
    def reach(self, name: str) -> None:
        self.members[name].reach(self.database)

    @rule(name=nodes)
    def hear(self, name: str) -> None:
        self.members[name].hear()

    @rule(name=nodes)
    def exchange(self, name: str) -> None:
        node = self.members[name]
        node.step()
        node.reach(self.database)
        node.hear()
        node.step()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.database.now += timedelta(seconds=seconds)
        for node in self.members.values():
            node.clock += seconds

    @rule(seconds=st.sampled_from([-3600, -20, 20, 3600]))
    def the_clock_of_the_database_jumps(self, seconds: int) -> None:
        self.database.now += timedelta(seconds=seconds)

    @rule(name=nodes, cut=st.booleans())
    def network(self, name: str, cut: bool) -> None:
        self.members[name].cut = cut

    @rule(name=nodes)
    def restart(self, name: str) -> None:
        node = self.members[name]
        if node.writing is not None:
            self.database.writes.remove(node.writing)
        self.members[name] = ModelNode.started(name, node.clock, node.known.known)

    @rule(name=nodes, successor=st.sampled_from(("", *NAMES)))
    def resign(self, name: str, successor: str) -> None:
        node = self.members[name]
        if node.known.holding and successor != name:
            node.known = replace(node.known, resignation=Resignation(successor=successor, reason="asked"))

    @rule(name=nodes, by=nodes)
    def show(self, name: str, by: str) -> None:
        """A session between two nodes."""
        number = self.members[by].known.highest
        if number > self.members[name].known.highest:
            self.members[name].known = replace(self.members[name].known, shown=number, shown_by=by)

    # Writes: proved and committed in one transaction, however late the node acts

    @rule(name=nodes)
    def begin_write(self, name: str) -> None:
        node = self.members[name]
        term = node.acts_for
        if term is not None and node.writing is None and not node.cut and self.database.prove(term):
            node.writing = term
            self.database.writes.append(term)

    @precondition(lambda self: self.database.writes)
    @rule(name=nodes)
    def commit(self, name: str) -> None:
        node = self.members[name]
        if node.writing is not None:
            self.database.writes.remove(node.writing)
            self.database.committed.append(node.writing)
            node.writing = None

    @invariant()
    def writes_of_two_terms_do_not_interleave(self) -> None:
        if not hasattr(self, "database"):
            return
        numbers = [term.number for term in self.database.committed]
        assert numbers == sorted(numbers)
        assert len({term.number for term in self.database.committed}) == len(set(self.database.committed))
        assert all(term == self.database.row.term for term in self.database.writes)

    @invariant()
    def one_node_at_most_holds_the_current_term(self) -> None:
        if hasattr(self, "database"):
            holders = [each.name for each in self.members.values() if each.acts_for == self.database.row.term]
            assert len(holders) <= 1

    def teardown(self) -> None:
        """Once things are quiet there is one master, and all others follow it."""
        if not hasattr(self, "database"):
            return
        for node in self.members.values():
            node.cut = False
            if node.writing is not None:
                self.database.writes.remove(node.writing)
                node.writing = None
            node.hear()
        for _ in range(160):
            for node in self.members.values():
                self.exchange(node.name)
            self.time_passes(0.25)
        current = self.database.row.term
        holders = [node.name for node in self.members.values() if node.known.holding]
        assert holders == [current.holder], (holders, current)
        assert {node.known.known for node in self.members.values()} == {current}
        assert not self.database.look().expired


Cluster.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestCluster = Cluster.TestCase
