"""The helpers that wait say what they waited for."""

import pytest

from tests.waiting import until, wait_until


def test_the_value_is_returned() -> None:
    values = iter([0, "", 7])
    assert wait_until(lambda: next(values)) == 7


def test_a_failure_names_what_was_waited_for() -> None:
    with pytest.raises(AssertionError, match="not within 0 s: the moon"):
        wait_until(lambda: False, "the moon", seconds=0)


@pytest.mark.anyio
async def test_a_failure_shows_the_condition() -> None:
    moons: list[int] = []
    with pytest.raises(AssertionError, match=r"len\(moons\) > 1"):
        await until(lambda: len(moons) > 1, seconds=0)
    with pytest.raises(AssertionError, match="bool"):
        await until(bool, seconds=0)
