"""Requests per minute, against a clock that the test moves (conventions.md 9.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.api.limits import RequestRate
from secmon.common.errors import SecmonError
from tests.manual_clock import ManualClock


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
