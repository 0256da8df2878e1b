"""The table of sources: what it learns, what it forgets, what it refuses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.agents.sources.presence import Presence
from secmon.agents.sources.reports import WHOLE, SourceQuestion, SourceRow
from secmon.agents.wire.location import escape, source
from secmon.common.paths import Paths
from secmon.engine.sources.observation import LAG_SECONDS
from secmon.engine.sources.source_keeper import SourceKeeper
from secmon.engine.sources.source_table import IRREGULAR_SECONDS, KEPT_SECONDS, MAX_LOCATIONS, Pauses, SourceTable
from secmon.journal.segments import segment_path
from tests.manual_clock import ManualClock

HOUR, DAY = 3600, 86_400
NOW = 1_800_000_000 // DAY * DAY


def message(agent: int, location: str, log: str = "text: of a log") -> bytes:
    return f"1:{source(f'{agent:03}', 'web', '10.0.0.1')}{escape(location)}:{log}".encode()


def row(table: SourceTable, agent: int, location: str) -> SourceRow:
    return next(one for one in table.rows(0) if one.key == (agent, location))


@given(st.lists(st.sampled_from(["/var/log/a", "C:\\logs\\b", "a|b", "x:", "|", "::1", "é"]), max_size=12))
def test_each_location_of_an_agent_is_a_source(locations: list[str]) -> None:
    table = SourceTable(NOW)
    table.note([message(7, location) for location in locations], NOW)
    found = {one.location for one in table.rows(0)}
    assert found == ({WHOLE, *locations} if locations else set())


def test_messages_of_nodes_and_broken_ones_have_no_source() -> None:
    table = SourceTable(NOW)
    own = f"1:{source('007', 'web', 'any')}secmon-monitord:secmon: Agent back".encode()
    table.note([own, b"1:/var/log/syslog:text", b"", b"1", b"1:", b"1:[007] (web", b"x" * 70_000, b"1:|:|:"], NOW)
    assert table.rows(0) == []


def test_the_usual_pause_is_the_longest_one_but_that_of_the_worst_day() -> None:
    found = Pauses(7, "/log", NOW, NOW)
    for day, night in enumerate([0, 8, 9, 8, 20, 8]):  # quiet from 23 o'clock on; the fifth day has an outage
        for hour in range(night, 24):
            found.note(NOW + day * DAY + hour * HOUR, begin=NOW)
    assert found.usual() == 10 * HOUR
    assert found.hours == 6 * 24 - 53


def test_a_pause_without_a_connection_is_not_learned() -> None:
    table = SourceTable(NOW)
    table.note([message(7, "/log")], NOW)
    table.connected({7}, {7}, NOW)
    table.connected({7}, set(), NOW + 60)
    table.note([message(7, "/log")], NOW + 5 * HOUR)  # before the node knows that the agent is back
    table.connected({7}, {7}, NOW + 5 * HOUR + 30)
    assert row(table, 7, "/log").pause == 0
    table.note([message(7, "/log")], NOW + 5 * HOUR + 600)
    table.note([message(7, "/log")], NOW + 5 * HOUR + 900)
    assert row(table, 7, "/log").pause == 300
    table.begin = NOW + 5 * HOUR + 901
    table.note([message(7, "/log")], NOW + 9 * HOUR)
    assert row(table, 7, "/log").pause == 300


def test_an_agent_with_too_many_locations_keeps_its_first_ones() -> None:
    table = SourceTable(NOW)
    table.note([message(7, f"/log/{number}") for number in range(MAX_LOCATIONS + 5)], NOW)
    table.note([message(7, "x" * 600), message(8, "/log")], NOW)
    assert (len(table), table.refused) == (MAX_LOCATIONS + 3, 6)
    table.connected({7, 8}, {7, 8}, NOW + IRREGULAR_SECONDS + 1)
    assert {one.key for one in table.rows(0)} == {(7, WHOLE), (8, WHOLE)}
    table.note([message(7, "/log/new")], NOW + IRREGULAR_SECONDS + 2)
    assert row(table, 7, "/log/new").last == NOW + IRREGULAR_SECONDS + 2


def test_agents_that_are_removed_are_forgotten_and_regular_sources_after_weeks() -> None:
    table = SourceTable(NOW)
    table.restore([Pauses(agent, at, 1, NOW, hours=50) for agent in (7, 8) for at in (WHOLE, "/log")], NOW)
    table.connected({7}, {7}, NOW + KEPT_SECONDS)
    assert {one.agent for one in table.rows(0)} == {7}
    table.connected({7}, {7}, NOW + KEPT_SECONDS + 1)
    assert [one.location for one in table.rows(0)] == [WHOLE]


def test_what_a_process_has_saved_is_known_to_the_next_one(tmp_path: Path) -> None:
    async def presence() -> Presence:
        return Presence(frozenset(), frozenset())

    paths, clock = Paths(tmp_path), ManualClock()
    paths.events.mkdir(parents=True)
    first = SourceKeeper(paths, clock, presence, journal_limit=1000)
    now = first.observation.now()
    first.table.note([message(7, "/log"), message(8, "/log")], now)
    first.answer(SourceQuestion(silent=[(7, "/log", now)]))
    first.save()
    clock.advance(60)
    second = SourceKeeper(paths, clock, presence, journal_limit=1000)
    second.load()
    report = second.answer(SourceQuestion())
    assert report.since == report.reached == now + 60
    assert [one.key for one in report.rows if one.silent_since] == [(7, "/log")]
    assert second.answer(SourceQuestion(after=now + 1)).rows == []
    paths.source_times.write_bytes(b"\x93damaged")
    third = SourceKeeper(paths, clock, presence, journal_limit=1000)
    third.load()
    assert third.answer(SourceQuestion()).rows == []


@pytest.mark.parametrize("cause", ["behind", "full", "set"])
def test_a_node_that_does_not_see_everything_begins_again(tmp_path: Path, cause: str) -> None:
    async def presence() -> Presence:
        return Presence(frozenset(), frozenset())

    paths, clock = Paths(tmp_path), ManualClock()
    paths.events.mkdir(parents=True)
    sources = SourceKeeper(paths, clock, presence, journal_limit=1000)
    seen = sources.observation
    clock.advance(LAG_SECONDS)
    sources.check()
    assert seen.since == seen.now() - LAG_SECONDS
    if cause == "behind":
        clock.advance(1)
    elif cause == "full":
        segment_path(paths.events, 1).write_bytes(b"x" * 800)
    else:
        clock.suspend(3600)
    sources.check()
    assert seen.since == seen.now()
    assert (seen.epoch == seen.now()) == (cause == "set")
