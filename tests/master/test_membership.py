"""Membership decisions: properties and single cases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rpc import version
from secmon.common.errors import SecmonError
from secmon.master.membership import (
    Admit,
    Candidate,
    Close,
    ConnectedWorker,
    Forget,
    Instant,
    KnownNode,
    MembershipRules,
    MembershipView,
    Refuse,
    apply,
    decide,
)

NOW = Instant(datetime(2026, 5, 1, tzinfo=UTC), 1000.0)
RULES = MembershipRules(
    master_name="master", cluster_name="c", max_skew=60, silence=3, forget_after=timedelta(hours=24)
)
NAMES = st.sampled_from(["alpha", "Alpha", "beta", "master"])
IDS = st.sampled_from(["one", "two"])


def _candidate(serial: int = 100, /, **changes: object) -> Candidate:
    usual = Candidate(
        serial=serial,
        name="alpha",
        installation_id="one",
        cluster_name="c",
        version="4.8.2",
        protocol=version.PROTOCOL,
        min_protocol=version.MIN_PROTOCOL,
        skew=0.0,
        ip="10.0.0.1",
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def _session(
    serial: int, name: str = "alpha", installation_id: str = "one", last_heard: float = 999.0, skew: float = 0.0
) -> ConnectedWorker:
    return ConnectedWorker(
        serial=serial, name=name, installation_id=installation_id, ip="10.0.0.1", last_heard=last_heard, skew=skew
    )


def _known(name: str, hours: float) -> KnownNode:
    return KnownNode(name=name, version="4.8.2", ip="10.0.0.1", last_seen=NOW.wall - timedelta(hours=hours))


@st.composite
def snapshots(draw: st.DrawFn) -> MembershipView:
    sessions = draw(
        st.lists(
            st.builds(_session, st.just(0), NAMES, IDS, st.floats(990, 1000), st.sampled_from([0.0, 0.0, 61.0])),
            max_size=4,
        )
    )
    candidates = draw(
        st.lists(
            st.builds(
                _candidate,
                st.just(0),
                name=NAMES,
                installation_id=IDS,
                cluster_name=st.sampled_from(["c", "c", "d"]),
                protocol=st.sampled_from([version.PROTOCOL, version.PROTOCOL, 0]),
                skew=st.sampled_from([0.0, 0.0, 61.0, float("nan")]),
            ),
            max_size=4,
        )
    )
    known = draw(st.lists(st.builds(_known, NAMES, st.floats(0, 48)), max_size=4, unique_by=lambda node: node.name))
    return MembershipView(
        rules=RULES,
        sessions=tuple(replace(each, serial=number) for number, each in enumerate(sessions)),
        candidates=tuple(replace(each, serial=100 + number) for number, each in enumerate(candidates)),
        known=tuple(known),
    )


def _after(snapshot: MembershipView, count: int | None = None) -> MembershipView:
    for transition in decide(snapshot, NOW)[:count]:
        snapshot = apply(snapshot, transition, NOW)
    return snapshot


@settings(max_examples=200)
@given(snapshots(), st.integers(0, 12))
def test_an_interrupted_decision_can_be_repeated(snapshot: MembershipView, count: int) -> None:
    assert repr(_after(_after(snapshot, count))) == repr(_after(snapshot))  # repr: nan is not equal to itself


@settings(max_examples=200)
@given(snapshots())
def test_the_final_view_meets_the_conditions(snapshot: MembershipView) -> None:
    end = _after(snapshot)
    assert end.candidates == ()
    assert not decide(end, NOW)
    joined = {session.name.casefold() for session in end.sessions if session.serial >= 100}
    names = [session.name.casefold() for session in end.sessions if session.name.casefold() in joined]
    assert len(names) == len(set(names)), "who was admitted has its name alone"
    assert all(NOW.monotonic - session.last_heard <= RULES.silence for session in end.sessions)


@settings(max_examples=100)
@given(snapshots())
def test_every_transition_has_a_reason(snapshot: MembershipView) -> None:
    assert all(transition.reason for transition in decide(snapshot, NOW))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"protocol": 0}, 3031, "generations 2 to 0"),
        ({"protocol": 4, "min_protocol": 4}, 3031, "the master generations 2 to 3"),
        ({"cluster_name": "d"}, 3030, "of cluster d"),
        ({"skew": 61.0}, 3041, "61.0 s ahead of"),
        ({"skew": -61.0}, 3041, "61.0 s behind"),
        ({"name": "MASTER"}, 3029, "the master's name"),
    ],
)
def test_candidates_that_are_refused(change: dict[str, object], code: int, words: str) -> None:
    candidate = _candidate(**change)
    (refused,) = decide(MembershipView(rules=RULES, candidates=(candidate,)), NOW)
    assert isinstance(refused, Refuse)
    assert refused.code == code
    assert words in refused.reason


@pytest.mark.parametrize("skew", [61.0, -61.0, float("inf"), float("nan")])
def test_sessions_and_joins_have_the_same_limit_of_skew(skew: float) -> None:
    wrong, right = replace(_session(1), skew=skew), replace(_session(2, name="beta"), skew=59.0)
    [closed] = decide(MembershipView(rules=RULES, sessions=(wrong, right)), NOW)
    assert isinstance(closed, Close)
    assert closed.session is wrong
    [refused] = decide(MembershipView(rules=RULES, candidates=(_candidate(skew=skew),)), NOW)
    assert isinstance(refused, Refuse)
    assert closed.reason == str(SecmonError(refused.code, refused.reason))


def test_a_name_in_use_is_refused_unless_its_session_is_silent() -> None:
    newcomer = _candidate(installation_id="two")
    (refused,) = decide(MembershipView(rules=RULES, sessions=(_session(1),), candidates=(newcomer,)), NOW)
    assert isinstance(refused, Refuse)
    assert (refused.code, refused.reason) == (3028, "alpha is connected from 10.0.0.1")
    silent = _session(1, last_heard=990.0)
    closed, admitted = decide(MembershipView(rules=RULES, sessions=(silent,), candidates=(newcomer,)), NOW)
    assert closed == Close(silent, "alpha has been silent for 10.0 s")
    assert admitted == Admit(newcomer, "alpha (4.8.2) joined from 10.0.0.1")


def test_a_session_on_a_slow_link_may_be_silent_for_longer() -> None:
    rules = replace(RULES, delay=lambda round_trip: min(15 * round_trip, 15.0))
    near = _session(1, last_heard=990.0)
    far = replace(_session(2, name="beta", last_heard=990.0), round_trip=0.5)
    unknown = replace(_session(3, name="gamma", last_heard=983.0), round_trip=float("inf"))
    gone = replace(unknown, serial=4, name="delta", last_heard=981.0)
    closed = decide(MembershipView(rules=rules, sessions=(near, far, unknown, gone)), NOW)
    assert [one.session for one in closed if isinstance(one, Close)] == [near, gone]


def test_a_copied_installation_is_named_in_the_reason() -> None:
    closed, _ = decide(
        MembershipView(rules=RULES, sessions=(_session(1),), candidates=(_candidate(ip="10.0.0.9"),)), NOW
    )
    assert "is one installation a copy of the other?" in closed.reason


def test_absent_nodes_are_forgotten_and_connected_ones_are_not() -> None:
    known = (_known("alpha", 48), _known("beta", 48), _known("gamma", 23))
    transitions = decide(MembershipView(rules=RULES, sessions=(_session(1),), known=known), NOW)
    assert transitions == [Forget("beta", "beta has been away for 48 h")]
