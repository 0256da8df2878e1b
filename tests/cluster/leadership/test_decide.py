"""What a node decides about the role of master."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

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

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = 1000.0


def term(number: int, holder: str, identity: str = "", address: str = "10.0.0.1") -> Term:
    return Term(number, identity or f"id{number}", holder, address, 1516)


def row(current: Term, *, expired: bool = False, resigned: bool = False, successor: str = "") -> TermRow:
    return TermRow(current, MOMENT, MOMENT, 10, expired, resigned, successor, "the reason")


def follower(found: TermRow | None, *, watched: float | None = 0.0, **changes: object) -> Snapshot:
    """Node ``a``, which has read ``found`` unchanged for ``watched`` seconds."""
    known = found.term if found is not None and found.term.holder not in ("", "a") else None
    base = Snapshot(
        node="a", address="10.0.0.1", port=1516, obstacle="", timing=Timing(), next_contact=NOW + 1, row=found,
        known=known,
    )  # fmt: skip
    return replace(base, watched_since=None if watched is None else NOW - watched, **changes)  # type: ignore[arg-type]


def holder(found: TermRow | None, **changes: object) -> Snapshot:
    """Node ``a``, which holds term 5 and renewed it a second ago."""
    base = follower(found, known=term(5, "a"), holding=True, renewed=NOW - 1)
    return replace(base, **changes)  # type: ignore[arg-type]


OTHERS = term(5, "b")
OWN = term(5, "a")
NAMESAKES = term(5, "a", address="10.0.0.9")

FOLLOWER: dict[str, tuple[Snapshot, Transition]] = {
    "looks when it is time": (follower(row(OTHERS), next_contact=NOW), Observe("it is time")),
    "waits for the database": (
        follower(None, watched=None),
        Stay(NOW + 1, "the database has not answered yet"),
    ),
    "stays while the master renews": (follower(row(OTHERS), watched=60), Stay(NOW + 1, "b is the master")),
    "follows a new term": (follower(row(OTHERS), known=term(4, "c")), Follow(OTHERS, "the reason")),
    "follows another term of the same number": (
        follower(row(OTHERS), known=term(5, "c", "lost")),
        Follow(OTHERS, "the reason"),
    ),
    "begins the first term": (
        follower(row(term(0, ""))),
        Claim(term(0, ""), "the cluster had no master"),
    ),
    "has not seen the silence itself": (
        follower(row(OTHERS, expired=True), watched=9.9),
        Stay(NOW + 1, "b is the master"),
    ),
    "has not seen it without a gap": (
        follower(row(OTHERS, expired=True), watched=None),
        Stay(NOW + 1, "b is the master"),
    ),
    "replaces a silent master": (
        follower(row(OTHERS, expired=True), watched=12),
        Claim(OTHERS, "b has not renewed its term for 12 s"),
    ),
    "cannot be master": (
        follower(row(OTHERS, expired=True), watched=12, obstacle="another cluster key"),
        Stay(NOW + 1, "b is the master"),
    ),
    "lets a better one go first": (
        follower(row(OTHERS, expired=True), watched=12, outranked=True),
        Stay(NOW + 1, "b is the master"),
    ),
    "does not wait long for a better one": (
        follower(row(OTHERS, expired=True), watched=13, outranked=True),
        Claim(OTHERS, "b has not renewed its term for 13 s"),
    ),
    "lets a better one follow a resignation": (
        follower(row(OTHERS, resigned=True), watched=2.9, outranked=True),
        Stay(NOW + 1, "b is the master"),
    ),
    "follows another node of its name": (
        follower(row(NAMESAKES), known=None),
        Follow(NAMESAKES, "the reason"),
    ),
    "does not take over from another node of its name": (
        follower(row(NAMESAKES), watched=12, known=NAMESAKES),
        Stay(NOW + 1, "a is the master"),
    ),
    "has failed as master": (
        follower(row(OTHERS, resigned=True), watched=12, held_off_until=NOW + 1),
        Stay(NOW + 1, "b is the master"),
    ),
    "follows a resignation at once": (follower(row(OTHERS, resigned=True)), Claim(OTHERS, "the reason")),
    "is the named successor": (
        follower(row(OTHERS, resigned=True, successor="a"), held_off_until=NOW + 1),
        Claim(OTHERS, "the reason"),
    ),
    "lets the named successor go first": (
        follower(row(OTHERS, resigned=True, successor="c"), watched=2.9),
        Stay(NOW + 1, "b is the master"),
    ),
    "does not wait long for the named successor": (
        follower(row(OTHERS, resigned=True, successor="c"), watched=3),
        Claim(OTHERS, "the reason"),
    ),
    "was the master and has started again": (
        follower(row(OWN)),
        Claim(OWN, "this node was the master and has started again"),
    ),
    "knows a later term than the database": (
        follower(row(OTHERS), known=term(6, "c")),
        Claim(OTHERS, "the database has lost term 6"),
    ),
}

HOLDER: dict[str, tuple[Snapshot, Transition]] = {
    "stays": (holder(row(OWN)), Stay(NOW + 1, "this node is the master")),
    "renews": (holder(row(OWN), next_contact=NOW), Renew("it is time")),
    "another has followed": (
        holder(row(term(6, "b")), next_contact=NOW),
        StepDown("term 5 is over: b has begun term 6"),
    ),
    "the database has lost the term": (
        holder(row(term(4, "b"))),
        StepDown("the database does not know term 5 of this node: it has lost its last changes"),
    ),
    "another node knows a higher term": (
        holder(row(OWN), shown=6, shown_by="w"),
        StepDown("w knows term 6"),
    ),
    "its lease may have run out": (
        holder(row(OWN), renewed=NOW - 10),
        Suspend("the lease of this term may have run out: no change is accepted until the database answers"),
    ),
    "goes on without the database": (
        holder(row(OWN), renewed=NOW - 60, suspended=True),
        Stay(NOW + 1, "this node is the master"),
    ),
    "resigns": (
        holder(row(OWN), resignation=Resignation(successor="b", reason="switchover")),
        Resign("b", "switchover"),
    ),
    "resigns when the database answers": (
        holder(row(OWN), watched_since=None, resignation=Resignation(successor="b", reason="switchover")),
        Stay(NOW + 1, "this node is the master"),
    ),
    "looks for its successor": (
        holder(row(OWN, resigned=True), next_contact=NOW),
        Observe("nobody has followed yet"),
    ),
    "waits for the successor": (
        holder(row(OWN, resigned=True, successor="b"), resignation=Resignation(successor="b", reason="switchover")),
        Stay(NOW + 1, "this node is the master"),
    ),
    "continues when nobody has followed": (
        holder(row(OWN, resigned=True, successor="b"), watched_since=NOW - 3),
        Claim(OWN, "the reason"),
    ),
    "leaves it to others after a failure": (
        holder(row(OWN, resigned=True), watched_since=NOW - 3, held_off_until=NOW + 27),
        Stay(NOW + 1, "this node is the master"),
    ),
}


@pytest.mark.parametrize(("known", "expected"), FOLLOWER.values(), ids=FOLLOWER)
def test_follower(known: Snapshot, expected: Transition) -> None:
    assert decide(known, NOW) == expected


@pytest.mark.parametrize(("known", "expected"), HOLDER.values(), ids=HOLDER)
def test_holder(known: Snapshot, expected: Transition) -> None:
    assert decide(known, NOW) == expected
