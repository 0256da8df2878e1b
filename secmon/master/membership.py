"""Who is in the cluster: decided here, without acting (design: decisions are pure).

:func:`decide` turns a snapshot into transitions, each with its reason; :func:`apply` is what a transition does to a
snapshot. A decision that was acted on in part only is simply taken again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from secmon.cluster.rpc import version
from secmon.common.errors import SecmonError


@dataclass(frozen=True)
class Instant:
    """An instant: wall time for dates, monotonic seconds for durations."""

    wall: datetime
    monotonic: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A node that has proved its identity and asks to be let in. ``skew``: seconds its clock is ahead of ours."""

    serial: int
    name: str
    installation_id: str
    cluster_name: str
    version: str
    protocol: int
    min_protocol: int
    skew: float
    ip: str


@dataclass(frozen=True, kw_only=True)
class ConnectedWorker:
    """A live session. ``last_heard`` is a monotonic reading; ``skew`` as of a candidate, by its heartbeats;
    ``round_trip`` of its link in seconds."""

    serial: int
    name: str
    installation_id: str
    ip: str
    last_heard: float
    round_trip: float = 0.0
    skew: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KnownNode:
    """A worker that is expected."""

    name: str
    version: str
    ip: str
    last_seen: datetime


@dataclass(frozen=True, kw_only=True)
class MembershipRules:
    """What the master demands."""

    master_name: str
    cluster_name: str
    max_skew: float
    silence: float
    delay: Callable[[float], float] = lambda round_trip: 0.0
    """How much longer silence may last on a link of this round trip; both in seconds."""
    forget_after: timedelta


@dataclass(frozen=True, kw_only=True)
class MembershipView:
    """SessionTable in the order they joined, candidates in the order they came."""

    rules: MembershipRules
    sessions: tuple[ConnectedWorker, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    known: tuple[KnownNode, ...] = ()


@dataclass(frozen=True)
class Admit:
    """Open a session for the candidate."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True)
class Refuse:
    """Turn the candidate away with an error code."""

    candidate: Candidate
    code: int
    reason: str


@dataclass(frozen=True)
class Close:
    """End a session; its node stays expected."""

    session: ConnectedWorker
    reason: str


@dataclass(frozen=True)
class Forget:
    """Expect the node no longer."""

    name: str
    reason: str


Transition = Admit | Refuse | Close | Forget


def decide(snapshot: MembershipView, now: Instant) -> list[Transition]:
    """What is to be done at ``now``, in order.

    Close the silent and those whose clocks went wrong, judge the candidates, forget the long absent.
    """
    transitions: list[Transition] = []
    for step in (_close_silent, _close_skewed, _judge_candidates, _forget_absent):
        for transition in step(snapshot, now):
            transitions.append(transition)
            snapshot = apply(snapshot, transition, now)
    return transitions


def apply(snapshot: MembershipView, transition: Transition, now: Instant) -> MembershipView:
    """The snapshot after ``transition`` was acted on."""
    match transition:
        case Admit(candidate):
            joined = ConnectedWorker(
                serial=candidate.serial,
                name=candidate.name,
                installation_id=candidate.installation_id,
                ip=candidate.ip,
                last_heard=now.monotonic,
                skew=candidate.skew,
            )
            expected = KnownNode(name=candidate.name, version=candidate.version, ip=candidate.ip, last_seen=now.wall)
            return replace(
                _without_candidate(snapshot, candidate),
                sessions=(*snapshot.sessions, joined),
                known=(*(node for node in snapshot.known if node.name != candidate.name), expected),
            )
        case Refuse(candidate):
            return _without_candidate(snapshot, candidate)
        case Close(session):
            return replace(
                snapshot,
                sessions=tuple(each for each in snapshot.sessions if each.serial != session.serial),
                known=tuple(
                    replace(node, last_seen=now.wall) if node.name == session.name else node for node in snapshot.known
                ),
            )
        case Forget(name):
            return replace(snapshot, known=tuple(node for node in snapshot.known if node.name != name))


def ineligibility(candidate: Candidate, rules: MembershipRules) -> tuple[int, str] | None:
    """Why a candidate cannot be in this cluster, whatever its members (cluster.md 3.2); code and reason."""
    if not version.compatible(candidate.protocol, candidate.min_protocol):
        theirs = version.spoken(candidate.protocol, candidate.min_protocol)
        ours = version.spoken(version.PROTOCOL, version.MIN_PROTOCOL)
        return 3031, f"{candidate.version} speaks {theirs} of the link, the master {ours}"
    if candidate.cluster_name != rules.cluster_name:
        return 3030, f"the node is of cluster {candidate.cluster_name}, the master of {rules.cluster_name}"
    if _skew_exceeded(candidate.skew, rules):
        return 3041, _skew_text(candidate.skew, rules)
    if candidate.name.casefold() == rules.master_name.casefold():
        return 3029, f"{candidate.name} is the master's name"
    return None


def name_conflict(candidate: Candidate, sessions: tuple[ConnectedWorker, ...]) -> tuple[int, str] | None:
    """The live session of another installation that has the candidate's name; names differ by more than case."""
    for session in sessions:
        if session.name.casefold() == candidate.name.casefold() and not _same_node(session, candidate):
            return 3028, f"{session.name} is connected from {session.ip}"
    return None


def _close_silent(snapshot: MembershipView, now: Instant) -> Iterator[Transition]:
    for session in snapshot.sessions:
        silence = now.monotonic - session.last_heard
        if silence > snapshot.rules.silence + snapshot.rules.delay(session.round_trip):
            yield Close(session, f"{session.name} has been silent for {silence:.1f} s")


def _close_skewed(snapshot: MembershipView, now: Instant) -> Iterator[Transition]:
    """What a join would refuse ends a session too: tokens and states of agents are judged by these clocks."""
    for session in snapshot.sessions:
        if _skew_exceeded(session.skew, snapshot.rules):
            yield Close(session, str(SecmonError(3041, _skew_text(session.skew, snapshot.rules))))


def _skew_exceeded(skew: float, rules: MembershipRules) -> bool:
    return not abs(skew) <= rules.max_skew  # so that no number at all is too far, too


def _skew_text(skew: float, rules: MembershipRules) -> str:
    side = "ahead of" if skew > 0 else "behind"
    return f"the node is {abs(skew):.1f} s {side} the master, allowed are {rules.max_skew:g} s"


def _judge_candidates(snapshot: MembershipView, now: Instant) -> Iterator[Transition]:
    for candidate in snapshot.candidates:
        refusal = ineligibility(candidate, snapshot.rules) or name_conflict(candidate, snapshot.sessions)
        if refusal:
            code, reason = refusal
            yield Refuse(candidate, code, reason)
            continue
        for session in snapshot.sessions:
            if _same_node(session, candidate):
                yield (closed := Close(session, _rejoin_reason(session, candidate)))
                snapshot = apply(snapshot, closed, now)
        admitted = Admit(candidate, f"{candidate.name} ({candidate.version}) joined from {candidate.ip}")
        yield admitted
        snapshot = apply(snapshot, admitted, now)


def _forget_absent(snapshot: MembershipView, now: Instant) -> Iterator[Transition]:
    connected = {session.name for session in snapshot.sessions}
    for node in snapshot.known:
        away = now.wall - node.last_seen
        if node.name not in connected and away > snapshot.rules.forget_after:
            yield Forget(node.name, f"{node.name} has been away for {away.total_seconds() / 3600:.0f} h")


def _same_node(session: ConnectedWorker, candidate: Candidate) -> bool:
    return session.name == candidate.name and session.installation_id == candidate.installation_id


def _rejoin_reason(session: ConnectedWorker, candidate: Candidate) -> str:
    reason = f"{session.name} joins again"
    if session.ip != candidate.ip:
        reason += f", now from {candidate.ip} instead of {session.ip}; is one installation a copy of the other?"
    return reason


def _without_candidate(snapshot: MembershipView, candidate: Candidate) -> MembershipView:
    return replace(snapshot, candidates=tuple(each for each in snapshot.candidates if each.serial != candidate.serial))
