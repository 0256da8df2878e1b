"""Back-off for addresses whose proofs fail."""

from secmon.master.failure_backoff import FREE_FAILURES, MAX_ADDRESSES, FailureBackoff
from tests.manual_clock import ManualClock


def test_pauses_double_up_to_a_minute() -> None:
    clock = ManualClock()
    throttle = FailureBackoff(clock)
    pauses = []
    for _ in range(FREE_FAILURES + 12):
        throttle.failed("10.0.0.1")
        pauses.append(throttle.paused("10.0.0.1"))
    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES : FREE_FAILURES + 3] == [2.0, 4.0, 8.0]
    assert pauses[-1] == 60.0
    assert throttle.paused("10.0.0.2") == 0.0
    clock.advance(61)
    assert throttle.paused("10.0.0.1") == 0.0
    throttle.failed("10.0.0.1")
    throttle.succeeded("10.0.0.1")
    assert throttle.paused("10.0.0.1") == 0.0


def test_addresses_are_bounded() -> None:
    throttle = FailureBackoff(ManualClock())
    for _ in range(FREE_FAILURES + 1):
        throttle.failed("first")
    for number in range(MAX_ADDRESSES):
        throttle.failed(str(number))
    assert throttle.paused("first") == 0.0
