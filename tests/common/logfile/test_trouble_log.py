"""A trouble in the log."""

import logging

import pytest

from secmon.common.logfile.trouble_log import TroubleLog


def test_each_cause_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    trouble = TroubleLog(logging.getLogger("test"))
    assert not trouble.over()
    for cause in ("refused", "refused", "wait 2 s", "refused", "wait 4 s"):
        trouble.note("no session with %s: %s", "m", cause)
    assert caplog.messages == ["no session with m: refused", "no session with m: wait 2 s"]
    assert trouble.over()
    assert not trouble.over()
    trouble.note("no session with %s: %s", "m", "refused")
    assert len(caplog.messages) == 3


def test_causes_that_never_repeat_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    trouble = TroubleLog(logging.getLogger("test"))
    for number in range(100):
        trouble.note("%d", number)
    assert len(caplog.messages) == 20
