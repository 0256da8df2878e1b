"""Refusals: which are kept, and how they are logged."""

import pytest

from secmon.common.errors import SecmonError
from secmon.master.refusal_log import LIMIT, RefusalLog
from tests.manual_clock import ManualClock


def test_refusals_are_bounded_and_unproved_ones_are_kept_by_address() -> None:
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
