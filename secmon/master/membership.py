"""The membership of the cluster, decided by pure functions::

    candidate --Admit--> session --Close--> absent (known) --Forget--> unknown
        |                                      |
        Refuse                                 +--Admit--> session

:func:`decide` turns a view into transitions, each with its reason; :func:`apply` returns the view after a transition.
``session_table`` executes them. After a crash in between, the decision is taken again: what was executed already is no
longer due.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from secmon.cluster.rpc import version
from secmon.common.errors import SecmonError


@dataclass(frozen=True)
class Instant:
    """A point in time: wall time for dates, monotonic seconds for durations."""

    wall: datetime
    monotonic: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A node that has proved its identity and requests to join. ``skew``: seconds that its clock is ahead of ours.

    ``ip``: where it connects from; ``address``: where others reach it.
    """

    serial: int
    name: str
    installation_id: str
    cluster_name: str
    version: str
    protocol: int
    min_protocol: int
    skew: float
    ip: str
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class ConnectedWorker:
    """An open session. ``last_heard`` is a monotonic time; ``skew`` as of a candidate, by its heartbeats;
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
    """An expected worker: connected, or absent for less than ``forget_after``. Addresses: as of a candidate."""

    name: str
    version: str
    ip: str
    last_seen: datetime
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class MembershipRules:
    """Conditions of membership. Times in seconds where not typed."""

    master_name: str
    cluster_name: str
    max_skew: float
    silence: float
    delay: Callable[[float], float] = lambda round_trip: 0.0
    """How much longer silence may last on a link with this round trip; both in seconds."""
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
    """Refuse the candidate with an error code."""

    candidate: Candidate
    code: int
    reason: str


@dataclass(frozen=True)
class Close:
    """Close a session; its node stays expected."""

    session: ConnectedWorker
    reason: str


@dataclass(frozen=True)
class Forget:
    """Remove the node from the expected ones."""

    name: str
    reason: str


Transition = Admit | Refuse | Close | Forget


def decide(view: MembershipView, now: Instant) -> list[Transition]:
    """The transitions due at ``now``, in order.

    Silent sessions are closed first, so that a name whose node is gone is free for a candidate; absent nodes are
    forgotten last, so that one that joins now is not.
    """
    transitions: list[Transition] = []
    for step in (_close_silent, _close_skewed, _judge_candidates, _forget_absent):
        for transition in step(view, now):
            transitions.append(transition)
            view = apply(view, transition, now)
    return transitions


def apply(view: MembershipView, transition: Transition, now: Instant) -> MembershipView:
    """The view after ``transition``."""
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
                _without_candidate(view, candidate),
                sessions=(*view.sessions, joined),
                known=(*(node for node in view.known if node.name != candidate.name), expected),
            )
        case Refuse(candidate):
            return _without_candidate(view, candidate)
        case Close(session):
            return replace(
                view,
                sessions=tuple(each for each in view.sessions if each.serial != session.serial),
                known=tuple(
                    replace(node, last_seen=now.wall) if node.name == session.name else node for node in view.known
                ),
            )
        case Forget(name):
            return replace(view, known=tuple(node for node in view.known if node.name != name))


def ineligibility(candidate: Candidate, rules: MembershipRules) -> tuple[int, str] | None:
    """Why a candidate cannot be in this cluster, whatever its members are (cluster.md 3.2); code and reason."""
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
    """Code and reason if a session of another installation has the candidate's name, whatever the case of letters."""
    for session in sessions:
        if session.name.casefold() == candidate.name.casefold() and not _same_node(session, candidate):
            return 3028, f"{session.name} is connected from {session.ip}"
    return None


def _close_silent(view: MembershipView, now: Instant) -> Iterator[Transition]:
    for session in view.sessions:
        silence = now.monotonic - session.last_heard
        if silence > view.rules.silence + view.rules.delay(session.round_trip):
            yield Close(session, f"{session.name} has been silent for {silence:.1f} s")


def _close_skewed(view: MembershipView, now: Instant) -> Iterator[Transition]:
    """The limit of a join holds for sessions too: validity of tokens and states of agents depend on these clocks."""
    for session in view.sessions:
        if _skew_exceeded(session.skew, view.rules):
            yield Close(session, str(SecmonError(3041, _skew_text(session.skew, view.rules))))


def _skew_exceeded(skew: float, rules: MembershipRules) -> bool:
    return not abs(skew) <= rules.max_skew  # also for NaN


def _skew_text(skew: float, rules: MembershipRules) -> str:
    side = "ahead of" if skew > 0 else "behind"
    return f"the node is {abs(skew):.1f} s {side} the master, allowed are {rules.max_skew:g} s"


def _judge_candidates(view: MembershipView, now: Instant) -> Iterator[Transition]:
    for candidate in view.candidates:
        refusal = ineligibility(candidate, view.rules) or name_conflict(candidate, view.sessions)
        if refusal:
            code, reason = refusal
            yield Refuse(candidate, code, reason)
            continue
        for session in view.sessions:
            if _same_node(session, candidate):
                yield (closed := Close(session, _rejoin_reason(session, candidate)))
                view = apply(view, closed, now)
        admitted = Admit(candidate, f"{candidate.name} ({candidate.version}) joined from {candidate.ip}")
        yield admitted
        view = apply(view, admitted, now)


def _forget_absent(view: MembershipView, now: Instant) -> Iterator[Transition]:
    connected = {session.name for session in view.sessions}
    for node in view.known:
        away = now.wall - node.last_seen
        if node.name not in connected and away > view.rules.forget_after:
            yield Forget(node.name, f"{node.name} has been away for {away.total_seconds() / 3600:.0f} h")


def _same_node(session: ConnectedWorker, candidate: Candidate) -> bool:
    return session.name == candidate.name and session.installation_id == candidate.installation_id


def _rejoin_reason(session: ConnectedWorker, candidate: Candidate) -> str:
    reason = f"{session.name} joins again"
    if session.ip != candidate.ip:
        reason += f", now from {candidate.ip} instead of {session.ip}; is one installation a copy of the other?"
    return reason


def _without_candidate(view: MembershipView, candidate: Candidate) -> MembershipView:
    return replace(view, candidates=tuple(each for each in view.candidates if each.serial != candidate.serial))
