"""Requests per minute and failed logins, against a clock that the test moves (conventions.md 9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.api.limits import FailedLogins, RequestRate
from secmon.common.clock import ManualClock
from secmon.common.errors import SecmonError


def _blocked(logins: FailedLogins, address: str = "a") -> bool:
    try:
        logins.check(address)
    except SecmonError as error:
        return error.code == 6000
    return False


def test_rate_window() -> None:
    clock = ManualClock()
    rate = RequestRate(3, clock)
    for _ in range(3):
        rate.count()
    for _ in range(5):  # refused requests are counted and do not open a new window
        with pytest.raises(SecmonError) as refused:
            rate.count()
        assert refused.value.code == 6001
    clock.advance(59.9)
    with pytest.raises(SecmonError):
        rate.count()
    clock.advance(0.1)
    for _ in range(3):
        rate.count()
    with pytest.raises(SecmonError):
        rate.count()


@given(gaps=st.lists(st.floats(0, 40), max_size=60), limit=st.integers(1, 5))
def test_no_window_lets_more_than_the_limit_through(gaps: list[float], limit: int) -> None:
    clock = ManualClock()
    rate = RequestRate(limit, clock)
    passed: list[float] = []
    opened: list[float] = []
    for gap in gaps:
        clock.advance(gap)
        now = clock.monotonic()
        if not opened or now - opened[-1] >= 60:
            opened.append(now)
        try:
            rate.count()
        except SecmonError:
            assert sum(at >= opened[-1] for at in passed) == limit
        else:
            passed.append(now)
            assert sum(at >= opened[-1] for at in passed) <= limit


def test_block_lasts_from_the_first_failure() -> None:
    clock = ManualClock()
    logins = FailedLogins(3, 300, clock)
    logins.failed("a")
    clock.advance(200)
    logins.failed("a")
    assert not _blocked(logins)
    logins.failed("a")
    assert _blocked(logins)
    assert not _blocked(logins, "b")
    clock.advance(99.9)
    assert _blocked(logins)
    clock.advance(0.1)
    assert not _blocked(logins)
    logins.failed("a")  # a new series
    assert not _blocked(logins)


def test_failures_before_the_block_time_are_forgotten() -> None:
    clock = ManualClock()
    logins = FailedLogins(2, 10, clock)
    logins.failed("a")
    clock.advance(10)
    logins.failed("a")
    assert not _blocked(logins)


def test_limit_of_one_blocks_at_once() -> None:
    logins = FailedLogins(1, 10, ManualClock())
    logins.failed("a")
    assert _blocked(logins)


def test_addresses_are_bounded() -> None:
    clock = ManualClock()
    logins = FailedLogins(2, 300, clock, capacity=100)
    for number in range(1000):
        logins.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(logins) == 100
    clock.advance(300)
    logins.check("other")
    assert len(logins) == 0
