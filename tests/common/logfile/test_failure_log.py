"""What is logged of an error that lasts."""

import logging

import pytest

from secmon.common.errors import SecmonError
from secmon.common.logfile.failure_log import FailureLog


def test_each_reason_of_an_error_is_logged_once_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = FailureLog(logging.getLogger("test"), "It cannot be written", "It is written again")
    trouble.succeeded()
    for reason in ("disk full", "disk full", "read-only", "disk full"):
        trouble.failed(reason)
    assert trouble.reason == "disk full"
    trouble.succeeded()
    trouble.succeeded()
    trouble.failed("disk full")
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("ERROR", "It cannot be written: disk full"),
        ("ERROR", "It cannot be written: read-only"),
        ("INFO", "It is written again"),
        ("ERROR", "It cannot be written: disk full"),
    ]


def test_a_cluster_daemon_that_is_stopped_is_no_error_of_its_callers(caplog: pytest.LogCaptureFixture) -> None:
    """At each stop of a node it ends first; of one that has failed the supervisor logs why."""
    trouble = FailureLog(logging.getLogger("test"), "It cannot be asked", "It is asked again")
    trouble.call_failed(SecmonError(3012))
    trouble.succeeded()
    assert [one.getMessage() for one in caplog.records if one.levelno > logging.DEBUG] == []
    trouble.call_failed(SecmonError(3023))
    [logged] = caplog.records
    assert (logged.levelname, logged.getMessage()) == ("ERROR", f"It cannot be asked: {SecmonError(3023).message}")
