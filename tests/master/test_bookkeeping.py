"""What the master remembers, and for how long: known nodes, refusals, failures."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.master.failure_backoff import FREE_FAILURES, MAX_ADDRESSES, FailureBackoff
from secmon.master.known_nodes import KnownNodes
from secmon.master.membership import KnownNode
from secmon.master.refusal_log import LIMIT, RefusalLog
from tests.manual_clock import ManualClock


def test_known_nodes_survive_a_restart(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    nodes = KnownNodes(paths)
    alpha = KnownNode(name="alpha", version="4.8.2", ip="10.0.0.1", last_seen=datetime(2026, 1, 1, tzinfo=UTC))
    nodes.put(alpha)
    nodes.save()
    again = KnownNodes(paths)
    assert again.all() == (alpha,)
    again.forget("alpha")
    again.save()
    assert KnownNodes(paths).all() == ()


@pytest.mark.parametrize("content", [b"", b"{", b'[{"name": 1}]', b"\xff"])
def test_a_damaged_file_of_known_nodes_is_no_obstacle(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    paths = Paths(tmp_path)
    paths.cluster.mkdir(parents=True)
    (paths.cluster / "known_nodes.json").write_bytes(content)
    assert KnownNodes(paths).all() == ()
    assert "known_nodes.json" in caplog.text


def test_refusals_are_bounded_and_strangers_count_by_address() -> None:
    refusals = RefusalLog(ManualClock())
    for number in range(LIMIT * 2):
        refusals.record(SecmonError(3025), name=f"name-{number}", ip="10.0.0.1", proved=False)
    assert len(refusals.items()) == 1
    for number in range(LIMIT * 2):
        refusals.record(SecmonError(3028, "why"), name=f"name-{number}", ip="10.0.0.1", proved=True)
    items = refusals.items()
    assert len(items) == LIMIT
    assert items[-1] == {
        "name": f"name-{LIMIT * 2 - 1}",
        "ip": "10.0.0.1",
        "code": 3028,
        "reason": "Another node with this name is connected: why",
        "time": "2026-01-01T00:00:00.000000Z",
    }


def test_a_stranger_cannot_write_lines_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    RefusalLog(ManualClock()).record(SecmonError(3025), name="x\nCRITICAL fake", ip="10.0.0.1", proved=False)
    assert "\n" not in caplog.records[0].getMessage()


def test_failures_pause_longer_and_longer() -> None:
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


def test_failures_take_bounded_memory() -> None:
    throttle = FailureBackoff(ManualClock())
    for _ in range(FREE_FAILURES + 1):
        throttle.failed("first")
    for number in range(MAX_ADDRESSES):
        throttle.failed(str(number))
    assert throttle.paused("first") == 0.0
