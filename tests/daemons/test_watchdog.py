"""When a silent daemon counts as hung."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.config.options import InternalOptions
from secmon.daemons.control_sockets import answers, control_server
from secmon.daemons.watchdog import LATE, MissedAnswers, WatchSettings, until_hung

SETTINGS = WatchSettings(interval_seconds=2.0, misses=8)
ON_TIME = SETTINGS.interval_seconds
HELD_UP = ON_TIME * LATE + 0.1


def looks(*seen: tuple[bool | None, float]) -> list[bool]:
    """What the watchdog says after each look: what came of it, and the seconds that it took."""
    missed = MissedAnswers(SETTINGS)
    return [missed.hung(answered, took) for answered, took in seen]


def test_a_daemon_is_hung_after_so_many_looks_in_a_row() -> None:
    assert looks(*[(False, ON_TIME)] * 8) == [False] * 7 + [True]


def test_a_daemon_that_is_busy_for_a_while_gets_its_full_time_again() -> None:
    assert not any(looks(*[(False, ON_TIME)] * 7, (True, ON_TIME), *[(False, ON_TIME)] * 7))


@pytest.mark.parametrize("other", [(False, HELD_UP), (False, 3600.0), (None, ON_TIME)], ids=["late", "asleep", "gone"])
def test_what_says_nothing_about_the_daemon_resets_the_count(other: tuple[bool | None, float]) -> None:
    assert not any(looks(*[(False, ON_TIME)] * 7, other, *[(False, ON_TIME)] * 7))
    assert not any(looks(*[other] * 100))


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.sampled_from([ON_TIME, HELD_UP])), max_size=40))
def test_hung_means_exactly_an_unbroken_row_of_punctual_misses(seen: list[tuple[bool | None, float]]) -> None:
    for end, said in enumerate(looks(*seen), 1):
        assert said is (end >= 8 and all(each == (False, ON_TIME) for each in seen[end - 8 : end]))


def test_settings_follow_the_internal_options() -> None:
    options = InternalOptions.defaults()
    assert WatchSettings.of(options) == WatchSettings(interval_seconds=2.0, misses=8)
    assert WatchSettings.of(options.with_overrides({"daemons.watchdog_misses": 0})) is None


async def refuse(command: str, request: Mapping[str, Any]) -> object:
    raise RuntimeError("a bug in the command, which is an answer all the same")


async def hang(command: str, request: Mapping[str, Any]) -> object:
    return await asyncio.Event().wait()


@pytest.mark.anyio
async def test_any_answer_will_do_and_a_socket_without_a_listener_is_none(root: Path) -> None:
    path = root / "toy"
    assert await answers(path, 5) is None
    control = control_server(path, refuse, None)
    await control.open()
    assert await answers(path, 5) is True
    await control.close()
    path.touch()
    assert await answers(path, 5) is None


@pytest.mark.anyio
async def test_watching_ends_when_the_daemon_hangs(root: Path) -> None:
    control = control_server(root / "toy", hang, None)
    await control.open()
    try:
        assert await until_hung(root / "toy", WatchSettings(interval_seconds=0.05, misses=3)) > 0
    finally:
        await control.close()
