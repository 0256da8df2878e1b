"""Nodes, a database, delays, pauses, cuts, lost answers, clocks that jump, a standby that lacks the last seconds, two
nodes of one name, nodes that cannot serve: one writer at a time, a master at last.

The decisions and what a node knows are the product's; the database and the way to it are models.
"""

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from secmon.cluster.leadership.candidates import BEHIND, Candidate, clash, goes_first
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
from secmon.cluster.leadership.lookout import LOOKS
from secmon.cluster.leadership.snapshot import Resignation, Snapshot, Timing
from secmon.cluster.leadership.term import Term, TermRow

TIMING = Timing()
NODES = {each.address: each for each in (
    Candidate("a", "1", 1516), Candidate("b", "2", 1516, preference=60), Candidate("c", "3", 1516, missing=BEHIND + 1),
    Candidate("a", "4", 1516),
)}  # fmt: skip
"""By address, which no two have. The last one has a name that is in use."""
SEEN = timedelta(seconds=LOOKS * TIMING.contact)
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
    present: dict[str, "Presence"] = field(default_factory=dict)
    copy: "tuple[TermRow, int] | None" = None
    """What an asynchronous standby has: the row, and how many of the commits."""

    def announced(self) -> list[Candidate]:
        found = sorted((each.node.node, each.since, each.node.address) for each in self._seen())
        return [self.present[address].node for _, _, address in found]

    def announce(self, node: Candidate) -> None:
        before = {each.node.address: each.since for each in self._seen()}
        self.present[node.address] = Presence(node, before.get(node.address, self.now), self.now)

    def _seen(self) -> "list[Presence]":
        return [each for each in self.present.values() if each.seen > self.now - SEEN]

    def fail_over(self) -> None:
        """The standby becomes the primary; open transactions end."""
        if self.copy is not None:
            self.row, count = self.copy
            del self.committed[count:]
            self.writes.clear()

    def look(self) -> TermRow:
        ttl = timedelta(seconds=self.row.ttl_seconds)
        expired = self.row.renewed + ttl <= self.now or self.row.renewed > self.now + ttl
        return self._changed(expired=expired)

    def prove(self, held: Term) -> bool:
        return held == self.row.term

    def claim(self, seen: Term, by: Candidate, above: int) -> Term | None:
        """None also while it would wait for a write: the attempt is over before that."""
        row = self.look()
        free = row.expired or row.resigned or row.term.holder == "" or by.holds(row.term) or row.term.number < above
        if not self.prove(seen) or not free or self.writes:
            return None
        new = Term(max(seen.number, above) + 1, str(next(self.ids)), by.node, by.address, by.port)
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


class Presence(NamedTuple):
    """A row of the candidates."""

    node: Candidate
    since: datetime
    seen: datetime


@dataclass
class ModelNode:
    """A node, its own clock, and the attempt that is under way. ``obstacle``: what it finds when it looks inside."""

    me: Candidate
    clock: float
    known: Snapshot
    pending: Transition | None = None
    sent: float = 0.0
    answer: "tuple[TermRow, object, Candidate, list[Candidate]] | None" = None
    cut: bool = False
    writing: Term | None = None
    obstacle: str = ""

    @classmethod
    def started(cls, me: Candidate, clock: float, known: Term | None = None) -> "ModelNode":
        return cls(me, clock, Snapshot(node=me.node, timing=TIMING, next_contact=clock, known=known))

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
                done = database.claim(seen, self.me, self.known.highest)
            case Resign(successor) if held is not None:
                database.resign(held, successor)
        row, found = database.look(), database.announced()
        obstacle = "" if self.known.holding else clash(self.me, row, found) or self.obstacle
        me = self.me._replace(obstacle=obstacle)
        database.announce(me)
        self.answer = row, done, me, [each for each in found if not each.at(me) and not each.holds(row.term)]

    def hear(self) -> None:
        """The answer arrives in time, or there is none."""
        attempt, self.pending = self.pending, None
        late = self.clock - self.sent > TIMING.attempt
        if attempt is None:
            return
        if self.answer is None or self.cut or late:
            self.known = self.known.unanswered()
            return
        row, done, me, rivals = self.answer
        self.known = replace(
            self.known.read(row, self.clock),
            address=me.address,
            port=me.port,
            obstacle=me.obstacle,
            outranked=any(goes_first(each, me) for each in rivals),
        )
        if isinstance(attempt, Renew) and done:
            self.known = self.known.renewed_at(self.sent)
        if isinstance(attempt, Claim) and isinstance(done, Term):
            self.known = self.known.begun(done, self.sent)


class Cluster(RuleBasedStateMachine):
    """Any order of steps, messages, writes and faults."""

    nodes = st.sampled_from(list(NODES))

    @initialize(offsets=st.tuples(*(st.floats(0, 1e6) for _ in NODES)))
    def start(self, offsets: tuple[float, ...]) -> None:
        self.database = Database()
        self.members = {
            address: ModelNode.started(me, offset) for (address, me), offset in zip(NODES.items(), offsets, strict=True)
        }

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
        self.members[name] = ModelNode.started(node.me, node.clock, node.known.known)

    @rule(name=nodes, obstacle=st.sampled_from(["", "another cluster key"]))
    def lack(self, name: str, obstacle: str) -> None:
        self.members[name].obstacle = obstacle

    @rule()
    def replicate(self) -> None:
        self.database.copy = self.database.row, len(self.database.committed)

    @rule()
    def fail_over(self) -> None:
        self.database.fail_over()
        for node in self.members.values():
            if node.writing is not None and node.writing not in self.database.writes:
                node.writing = None

    @rule(name=nodes, successor=st.sampled_from(("", "a", "b", "c")))
    def resign(self, name: str, successor: str) -> None:
        node = self.members[name]
        if node.known.holding and successor != node.me.node:
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
            holders = [each.me for each in self.members.values() if each.acts_for == self.database.row.term]
            assert len(holders) <= 1

    def teardown(self) -> None:
        """Once things are quiet there is one master, and all others follow it."""
        if not hasattr(self, "database"):
            return
        for node in self.members.values():
            node.cut, node.obstacle = False, ""
            if node.writing is not None:
                self.database.writes.remove(node.writing)
                node.writing = None
            node.hear()
        for _ in range(200):
            for node in self.members.values():
                self.exchange(node.me.address)
            self.time_passes(0.25)
        current = self.database.row.term
        holders = [node.me for node in self.members.values() if node.known.holding]
        assert len(holders) == 1
        assert holders[0].holds(current)
        assert {node.known.known for node in self.members.values()} == {current}
        assert not self.database.look().expired


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestCluster = Cluster.TestCase
