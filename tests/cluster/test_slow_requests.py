"""The collection of slow requests: bounded, and what it keeps."""

from datetime import timedelta

from secmon.cluster.slow_requests import CAPACITY, SlowRequest, SlowRequests, Spent, spent_by
from secmon.common.clock import Clock
from secmon.common.trace import Trace
from tests.manual_clock import ManualClock

HOUR = timedelta(hours=1)


def slow(clock: Clock, seconds: float) -> SlowRequest:
    return SlowRequest(
        time=clock.now(), id="r1", seconds=seconds, operation="get_agents", method="GET", path="/agents", status=200,
        user="ada", client="10.0.0.9", node="m1", spent=(Spent("m1", "store", 1.0), Spent("w1", "network", 0.25)),
    )  # fmt: skip


def test_the_slowest_stay_and_old_ones_make_room() -> None:
    clock = ManualClock()
    found = SlowRequests(1.0, clock)
    found.add(slow(clock, 9000.0))
    clock.advance(2 * HOUR.total_seconds())
    for number in range(CAPACITY):
        found.add(slow(clock, 100.0 + number))
    assert [each.seconds for each in found.worst(since=4 * HOUR, limit=2)] == [99.0 + CAPACITY, 98.0 + CAPACITY]
    found.add(slow(clock, 5.0))
    found.add(slow(clock, 5000.0))
    kept = [each.seconds for each in found.worst(since=HOUR, limit=CAPACITY)]
    assert len(kept) == CAPACITY
    assert (kept[0], kept[-1]) == (5000.0, 101.0)


def test_only_recent_ones_are_shown() -> None:
    clock = ManualClock()
    found = SlowRequests(1.0, clock)
    found.add(slow(clock, 3.0))
    clock.advance(120)
    found.add(slow(clock, 2.0))
    assert [each.seconds for each in found.worst(since=timedelta(minutes=1), limit=5)] == [2.0]
    assert [each.seconds for each in found.worst(since=HOUR, limit=5)] == [3.0, 2.0]


def test_shares_name_each_node_once() -> None:
    trace = Trace()
    trace.add("store", 1.0)
    trace.add("network", 0.25, "w1")
    trace.add("function", 1.25, "m1")
    trace.add("function", 0.25)
    trace.add("login", 0.0001)
    spent = spent_by(trace, "m1")
    assert [(each.node, each.step, each.seconds) for each in spent] == [
        ("m1", "function", 1.5), ("m1", "store", 1.0), ("w1", "network", 0.25),
    ]  # fmt: skip
    assert slow(ManualClock(), 1.0).shares == "m1: store 1.000; w1: network 0.250"
