"""Pauses between the starts of a daemon."""

from secmon.common.backoff import Backoff


def test_at_once_then_growing_pauses() -> None:
    backoff = Backoff()
    assert [backoff.ended(0.0) for _ in range(10)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_health_is_rewarded_after_a_minute_only() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.ended(0.0)
    backoff.started(100.0)
    assert backoff.ended(159.9) == 8.0
    backoff.started(200.0)
    assert backoff.ended(260.0) == 0.0


def test_an_address_in_use_is_tried_at_a_steady_pause() -> None:
    backoff, pauses = Backoff(), []
    for _ in range(20):
        backoff.in_use()
        pauses.append(backoff.ended(0.0))
    assert set(pauses) == {Backoff.IN_USE}
    assert [backoff.ended(0.0) for _ in range(2)] == [0.0, 0.5]


def test_never_starting_is_no_health() -> None:
    backoff = Backoff()
    backoff.started(0.0)
    backoff.ended(1.0)
    assert backoff.ended(1000.0) == 0.5


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff()
    assert max(backoff.ended(0.0) for _ in range(5000)) == Backoff.LONGEST


def test_what_fails_four_times_in_a_row_is_not_back_soon() -> None:
    backoff = Backoff()
    persistent = []
    for in_use in (True, False, True, False):
        if in_use:
            backoff.in_use()
        backoff.ended(0.0)
        persistent.append(backoff.persistent)
    assert persistent == [False, False, False, True]
    backoff.started(10.0)
    backoff.ended(90.0)
    assert not backoff.persistent
