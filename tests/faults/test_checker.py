"""The checker finds every kind of broken promise, and nothing where none is broken."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checker import violations
from tests.faults.history import Calm, History, Outcome, Position, Read, Refusal, Write

LEASE = 10.0
DONE, NOT_DONE, UNKNOWN = Outcome.DONE, Outcome.NOT_DONE, Outcome.UNKNOWN


def written(value: str | None, at: float, outcome: Outcome = DONE, *, key: str = "user a", number: str = "") -> Write:
    return Write(key, value, at, at + 0.5, outcome, number)


def seen(value: str | None, at: float, *, node: str = "one", key: str = "user a", **how: bool) -> Read:
    return Read(key, node, value, at, at + 0.5, **how)


def found(writes: Sequence[Write] = (), reads: Sequence[Read] = (), *, calm: Calm | None = None) -> list[str]:
    history = History(reads=list(reads), calm=calm or Calm())
    for write in writes:
        history.wrote(write)
    return violations(history, lease_seconds=LEASE)


def test_what_was_acknowledged_is_seen() -> None:
    assert found([written("1", 0), written("2", 5)], [seen("2", 20), seen("2", 6, final=True)]) == []


def test_an_acknowledged_change_that_is_lost() -> None:
    [text] = found([written("1", 0), written("2", 5)], [seen("1", 6, final=True)])
    assert "user a read at one" in text
    assert "'2' from 5.00 to 5.50 DONE" in text
    assert found([written("1", 0)], [seen(None, 6, final=True)])
    assert found([written("1", 0), written(None, 5)], [seen("1", 6, final=True)])


def test_a_value_that_nobody_wrote() -> None:
    assert found([written("1", 0)], [seen("7", 6)])
    assert found([], [seen("7", 6)])


def test_a_change_that_was_not_done_is_not_seen() -> None:
    assert found([written("1", 0), written("2", 5, NOT_DONE)], [seen("2", 6, final=True)])
    assert found([written("1", 0), written("2", 5, NOT_DONE)], [seen("1", 6, final=True)]) == []


@pytest.mark.parametrize("value", ["1", "2"])
def test_an_unknown_change_may_have_happened(value: str) -> None:
    assert found([written("1", 0), written("2", 5, UNKNOWN)], [seen(value, 60, final=True)]) == []


def test_a_stale_read_in_calm_times() -> None:
    writes, stale = [written("1", 0), written("2", 5)], [seen("1", 6)]
    assert found(writes, stale, calm=Calm([(4, 8)]))
    assert found(writes, stale, calm=Calm([(0, 5.2), (5.8, 8)])) == []
    assert found(writes, stale) == []


def test_a_stale_read_beyond_the_lease() -> None:
    writes = [written("1", 0), written("2", 5)]
    assert found(writes, [seen("1", 15.4)]) == []
    assert found(writes, [seen("1", 15.6)])


def test_a_read_during_a_change_sees_either() -> None:
    writes, calm = [written("1", 0), written("2", 5)], Calm([(0, 100)])
    assert found(writes, [seen("1", 5.2)], calm=calm) == []
    assert found(writes, [seen("2", 4.8)], calm=calm) == []
    assert found(writes, [seen("2", 4.2)], calm=calm)


def test_a_refused_login_says_what_the_value_is_not() -> None:
    writes = [written("1", 0), written("2", 5)]
    assert found(writes, [seen("1", 6, other=True, final=True)]) == []
    assert found(writes, [seen("2", 6, other=True, final=True)])


def test_a_node_that_takes_back_what_it_has_shown() -> None:
    writes = [written("1", 0), written("2", 5)]
    assert found(writes, [seen("2", 6), seen("1", 7)])
    assert found(writes, [seen("2", 6), seen("1", 7, node="two")]) == []
    assert found(writes, [seen("2", 6), seen("1", 6.2)]) == []
    assert found([writes[0], written("2", 5, UNKNOWN)], [seen("2", 6), seen("1", 7)])


def test_a_file_that_was_never_recorded_may_go() -> None:
    writes = [written("1", 0, key="rules a"), written("2", 5, UNKNOWN, key="rules a")]
    assert found(writes, [seen("2", 6, key="rules a"), seen("1", 7, key="rules a")]) == []


def test_an_id_given_twice() -> None:
    [text] = found([written("1", 0, number="007"), written("1", 9, key="user b", number="007")])
    assert text == "The id 007 was given to more than one user: user a, user b."
    assert found([written("1", 0, number="007"), written("1", 9, key="agent b", number="007")]) == []


def test_a_revision_that_went_back() -> None:
    history = History()
    steps = [("one", 4), ("two", 3), ("one", 5), ("two", 2)]
    history.positions = [Position(node, "registry", revision) for node, revision in steps]
    assert violations(history, lease_seconds=LEASE) == ["two: the registry went back from revision 3 to 2."]


@pytest.mark.parametrize(("begun", "calm", "wrong"), [(6, [], False), (6, [(0, 9)], True), (16, [], True)])
def test_a_right_change_that_was_refused(begun: float, calm: list[tuple[float, float]], wrong: bool) -> None:
    history = History(refusals=[Refusal("user a", "no such user", begun, begun + 1)], calm=Calm(calm))
    history.wrote(written("1", 5))
    assert bool(violations(history, lease_seconds=LEASE)) is wrong


def test_a_new_object_that_was_refused() -> None:
    history = History(refusals=[Refusal("user a", "it exists", 6, 7)])
    assert violations(history, lease_seconds=LEASE) == ["Refused: it exists"]


def test_answers_that_no_fault_explains_are_violations() -> None:
    history = History()
    history.complain("user a: refused")
    assert violations(history, lease_seconds=LEASE) == ["user a: refused"]


@st.composite
def registers(draw: st.DrawFn) -> tuple[list[Write], list[Read]]:
    """An object that behaves: every change takes place at one moment, and reads see it from then on."""
    at = 0.0
    writes: list[Write] = []
    states: list[tuple[float, str | None]] = [(0.0, None)]
    for number in range(draw(st.integers(0, 8))):
        outcome = draw(st.sampled_from(Outcome))
        begun, ended = at + 0.1, at + 0.1 + draw(st.floats(0.1, 3))
        new = draw(st.sampled_from([str(number), None]))
        writes.append(Write("user a", new, begun, ended, outcome))
        if outcome is DONE or (outcome is UNKNOWN and draw(st.booleans())):
            states.append((draw(st.floats(begun, ended)), new))
        at = ended
        if outcome is UNKNOWN:
            break
    reads = []
    for begun in draw(st.lists(st.floats(0, at + 5), max_size=20)):
        moment = begun + draw(st.floats(0.01, 0.5))
        shown = [value for since, value in states if since < moment][-1:] or [None]
        reads.append(Read("user a", "one", shown[0], begun, moment + 0.01, final=draw(st.booleans())))
    return writes, reads


@given(registers())
def test_an_object_that_behaves_breaks_no_promise(register: tuple[list[Write], list[Read]]) -> None:
    writes, reads = register
    assert found(writes, reads, calm=Calm([(0, 1000)])) == []
