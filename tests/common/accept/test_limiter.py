"""Who gets a place, and who loses one for it."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.accept.limiter import AcceptLimits, ConnectionLimiter, Slot, address_group
from secmon.common.counters import Counters
from tests.manual_clock import ManualClock

log = logging.getLogger("secmon.tests")


class Port:
    """A limiter, and what became of the connections that asked it."""

    def __init__(self, *, known: str = "", **limits: float) -> None:
        self.clock, self.counters = ManualClock(), Counters()
        self.limiter = ConnectionLimiter(
            "port", AcceptLimits(**limits), log=log, clock=self.clock, counters=self.counters,  # type: ignore[arg-type]
            is_known=lambda address: address == known,
        )  # fmt: skip
        self.closed: list[str] = []

    def take(self, address: str, name: str = "") -> Slot | None:
        return self.limiter.take(address, lambda: self.closed.append(name or address))

    def count(self, what: str) -> float:
        return self.counters.snapshot().get(f"port.connections{what}", 0)


def test_what_counts_as_one_address() -> None:
    assert address_group("192.0.2.7") == "192.0.2.7"
    assert address_group("::ffff:192.0.2.7") == "192.0.2.7"
    assert address_group("2001:db8:1:2:3::4") == address_group("2001:db8:1:2::ffff") == "2001:db8:1:2::/64"
    assert address_group("2001:db8:1:3::") != address_group("2001:db8:1:2::")
    assert address_group("fe80::1%eth0") == "fe80::/64"
    assert address_group("") == ""


def test_a_flood_of_one_address_does_not_keep_others_out() -> None:
    port = Port(total=100, reserved=20, per_address=80)
    for _ in range(1000):
        port.take("198.51.100.1")
    assert (port.limiter.strangers, port.count(".evicted")) == (80, 920)
    others = [port.take(f"192.0.2.{number}") for number in range(40)]
    assert all(others)
    assert set(port.closed) == {"198.51.100.1"}
    for _ in range(1000):
        port.take("198.51.100.1")
    assert set(port.closed) == {"198.51.100.1"}


def test_room_is_kept_for_known_addresses() -> None:
    port = Port(total=10, reserved=4, per_address=4, known="192.0.2.1")
    slots = [port.take(f"198.51.100.{number}") for number in range(6)]
    for slot in slots:
        assert slot is not None
        slot.busy = True
    assert port.take("198.51.100.99") is None
    assert all(port.take("192.0.2.1") for _ in range(4))
    assert not port.closed
    assert (port.count(".refused"), port.count(".open")) == (1, 10)


def test_who_authenticates_is_known_and_keeps_its_place() -> None:
    port = Port(total=4, reserved=2, per_address=2)
    first = port.take("192.0.2.1", "first")
    assert first is not None
    port.limiter.authenticated(first)
    first.busy = True
    for number in range(20):
        port.take(f"198.51.100.{number}")
    assert port.take("192.0.2.1", "again")
    assert port.limiter.strangers == 2
    assert not {"first", "again"} & set(port.closed)


def test_an_address_that_has_authenticated_does_not_keep_others_out() -> None:
    port = Port(total=10, reserved=5, per_address=5, per_known_address=5)
    for number in range(20):
        slot = port.take("198.51.100.1", str(number))
        assert slot is not None
        port.limiter.authenticated(slot)
        slot.busy = True
    assert port.closed == [str(number) for number in range(15)]
    assert (len(port.limiter), port.count(".evicted")) == (5, 15)
    assert all(port.take(f"192.0.2.{number}") for number in range(5))


def test_the_grace_of_a_connection_is_against_its_own_address_only() -> None:
    port = Port(total=2, reserved=0, per_address=2, grace_seconds=1.0)
    assert port.take("198.51.100.1", "old")
    assert port.take("198.51.100.1", "older")
    assert port.take("198.51.100.1") is None
    assert port.take("192.0.2.1")
    assert port.closed == ["old"]
    port.clock.advance(1.0)
    assert port.take("198.51.100.1")
    assert port.closed == ["old", "older"]


def test_silent_connections_of_an_address_do_not_end_those_that_talk() -> None:
    port = Port(total=20, reserved=0, per_address=8)
    talking = port.take("192.0.2.1", "talking")
    assert talking is not None
    port.limiter.begun(talking)
    for _ in range(100):
        port.take("192.0.2.1", "silent")
    assert set(port.closed) == {"silent"}
    assert port.limiter.strangers == 8


def test_connections_that_talk_leave_room_for_those_that_come() -> None:
    port = Port(total=20, reserved=0, per_address=8)
    for _ in range(100):
        slot = port.take("192.0.2.1", "talking")
        assert slot is not None
        port.limiter.begun(slot)
    late = [port.take("192.0.2.1", "late") for _ in range(4)]
    assert all(late)
    assert set(port.closed) == {"talking"}


def test_the_end_of_a_connection_may_come_before_it_begins() -> None:
    port = Port(total=2, reserved=0, per_address=2)
    slot = port.take("192.0.2.1")
    assert slot is not None
    port.limiter.release(slot)
    port.limiter.begun(slot)
    assert len(port.limiter) == 0


def test_log_lines_are_rare_and_name_addresses(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(total=1, reserved=0, per_address=1)
    for number in range(500):
        port.take(f"198.51.100.{number % 3}")
    assert len(caplog.records) == 1
    port.clock.advance(10)
    port.take("198.51.100.0")
    assert len(caplog.records) == 2
    assert "499 refused or closed to make room" not in caplog.records[0].message
    assert "499 refused or closed to make room" in caplog.text
    assert "198.51.100.2 (166)" in caplog.text


def test_the_end_of_a_flood_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    port = Port(total=2, reserved=0, per_address=2)
    slots = [port.take("198.51.100.1") for _ in range(100)]
    port.clock.advance(10)
    assert slots[-1] is not None
    port.limiter.release(slots[-1])
    assert len(caplog.records) == 2
    assert "97 refused or closed to make room" in caplog.text


Steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "release", "begin", "authenticate", "busy"]), st.integers(0, 5), st.integers(0, 30)
    ),
    max_size=200,
)


@given(Steps, st.integers(1, 12), st.integers(0, 4), st.integers(1, 6))
def test_bounds_hold_whatever_comes(steps: list[tuple[str, int, int]], total: int, reserved: int, own: int) -> None:
    port = Port(total=total, reserved=min(reserved, total), per_address=own)
    open_slots: list[Slot] = []
    for what, address, index in steps:
        if what == "take":
            slot = port.limiter.take(f"192.0.2.{address}", lambda: None)
            if slot is not None:
                open_slots.append(slot)
        elif open_slots:
            slot = open_slots[index % len(open_slots)]
            if what == "release":
                port.limiter.release(slot)
            elif what == "busy":
                slot.busy = True
            elif what == "begin":
                port.limiter.begun(slot)
            else:
                port.limiter.authenticated(slot)
        assert len(port.limiter) <= total
        assert port.limiter.strangers <= total - min(reserved, total)
    for slot in open_slots:
        port.limiter.release(slot)
    assert len(port.limiter) == port.limiter.strangers == 0


@given(st.lists(st.integers(0, 3), max_size=300))
def test_an_address_that_has_less_than_the_others_is_always_let_in(flood: list[int]) -> None:
    port = Port(total=10, reserved=2, per_address=8)
    for address in flood:
        port.take(f"198.51.100.{address}")
    assert port.take("192.0.2.1")
