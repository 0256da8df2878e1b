"""The collector of reference cycles, paused."""

import gc

import pytest

from secmon.common.collector import collector_paused


def test_it_is_paused_inside_and_runs_again_after() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_does_not_leave_it_paused() -> None:
    with pytest.raises(ValueError, match="inside"), collector_paused():
        raise ValueError("inside")
    assert gc.isenabled()
