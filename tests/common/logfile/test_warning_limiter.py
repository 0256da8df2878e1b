"""What others can make the log hold is bounded."""

import logging

import pytest

from secmon.common.logfile.warning_limiter import PER_WINDOW, WINDOW_SECONDS, WarningLimiter
from tests.manual_clock import ManualClock


def test_complaints_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = WarningLimiter(logging.getLogger("test"), clock)
    for number in range(PER_WINDOW * 3):
        complaints.warn("kind", "number %d", number)
    complaints.warn("other", "x")
    assert len(caplog.messages) == PER_WINDOW + 1
    clock.advance(WINDOW_SECONDS)
    complaints.warn("kind", "again")
    assert caplog.messages[-2:] == [f"kind: {PER_WINDOW * 2} more warnings like these", "again"]


def test_bounds_and_level_are_given(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = WarningLimiter(logging.getLogger("test"), clock, window_seconds=60, per_window=1, level=logging.ERROR)
    for number in range(3):
        complaints.warn("kind", "number %d", number)
    complaints.tick()
    assert caplog.messages == ["number 0"]
    clock.advance(60)
    complaints.tick()
    complaints.tick()
    assert caplog.messages == ["number 0", "kind: 2 more warnings like these"]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
