"""Totals, averages and alerts of excesses (ruleset.md 10, manager.md 9)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from secmon.engine.output.event_statistics import Averages, EventStatistics, StatisticsSettings, learned_average
from secmon.engine.rules.rule import Rule
from tests.filelimit import file_size_limit

NINE = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)  # a Wednesday
TOTALS = "totals/2024/May/ossec-totals-01.log"
SMALL = StatisticsSettings(least=5, most=50)


def rule(number: int, level: int) -> Rule:
    return Rule(number, level, "f", 1)


def test_the_vectors_of_the_reference() -> None:
    assert learned_average(100, 80, 3, alerts=0) == 90
    assert learned_average(100, 80, 3, alerts=3) == 115
    assert learned_average(100, 0, 0, alerts=0) == 120


def test_totals_of_an_hour_and_of_a_day(tmp_path: Path) -> None:
    one = EventStatistics(tmp_path, StatisticsSettings(), NINE)
    for _ in range(4):
        one.selected(rule(5715, 3))
        one.processed(NINE)
    one.selected(rule(550, 7))
    one.selected(rule(550, 7))
    one.received(61)
    one.syscheck(2)
    assert not one.begin_hour(NINE + timedelta(minutes=20))
    assert one.begin_hour(NINE + timedelta(hours=1))
    hour = "9-550-7-2\n9-5715-3-4\n9--6--61--2--0\n\n"
    assert (tmp_path / TOTALS).read_text() == hour
    one.received(5)
    one.processed(NINE)
    assert one.begin_hour(NINE + timedelta(days=1))
    lines = (tmp_path / TOTALS).read_text().removeprefix(hour).splitlines()
    assert lines[:2] == ["10--0--5--0--0", ""]
    assert lines[11:13] == ["Hour totals - 9:4", "Hour totals - 10:1"]
    assert lines[-1] == "Total events for day:5"
    assert len(lines) == 2 + 24 + 1
    assert not one.begin_hour(NINE + timedelta(days=1))


def test_averages_are_learned_by_day_and_by_weekday(tmp_path: Path) -> None:
    one = EventStatistics(tmp_path, StatisticsSettings(), NINE)
    for day in range(3):
        for _ in range(100):
            one.processed(NINE)
        one.begin_hour(NINE + timedelta(days=day + 1))
    hourly = Averages(tmp_path / "hourly-average")
    assert hourly.learned == 3
    # 120, then (100 + 120) // 2 + 5, then (100 + 2 * 115) // 3 + 5
    assert hourly.values[9] == 115
    assert sum(hourly.values) == 115
    wednesday = Averages(tmp_path / "weekly-average/3")
    assert (wednesday.learned, wednesday.values[9]) == (1, 120)


def learned(folder: Path, average: int, days: int = 3) -> None:
    folder.mkdir(parents=True)
    (folder / "9").write_text(str(average))
    (folder / "24").write_text(str(days))


def alerts(one: EventStatistics, count: int) -> list[int]:
    return [index + 1 for index in range(count) if one.processed(NINE)]


def test_an_excess_is_reported_once_an_hour(tmp_path: Path) -> None:
    learned(tmp_path / "hourly-average", 10)
    one = EventStatistics(tmp_path, SMALL, NINE)
    assert alerts(one, 60) == [27]  # 10 + (10 * 150 / 100 + 1) and one more
    one.begin_hour(NINE + timedelta(days=1))
    assert Averages(tmp_path / "hourly-average").values[9] == (60 + 3 * 10) // 4 + 5


def test_the_margin_is_bounded(tmp_path: Path) -> None:
    learned(tmp_path / "hourly-average", 1)
    assert alerts(EventStatistics(tmp_path, SMALL, NINE), 60) == [7]
    assert StatisticsSettings(least=5, most=50).excessive(151, 100)
    assert not StatisticsSettings(least=5, most=50).excessive(150, 100)


def test_weekdays_alert_too_and_three_times_a_day_is_all(tmp_path: Path) -> None:
    learned(tmp_path / "hourly-average", 10)
    learned(tmp_path / "weekly-average/3", 20)
    one = EventStatistics(tmp_path, SMALL, NINE)
    assert alerts(one, 100) == [27, 52]
    assert alerts(EventStatistics(tmp_path, StatisticsSettings(level=0), NINE), 100) == []
    assert alerts(EventStatistics(tmp_path / "other", SMALL, NINE), 100) == []


def test_a_restart_continues_the_hour(tmp_path: Path) -> None:
    one = EventStatistics(tmp_path, StatisticsSettings(), NINE)
    one.received(3)
    one.processed(NINE)
    one.selected(rule(550, 7))
    one.save()
    two = EventStatistics(tmp_path, StatisticsSettings(), NINE + timedelta(minutes=5))
    two.received(2)
    two.selected(rule(550, 7))
    two.save()
    late = NINE + timedelta(days=2)
    three = EventStatistics(tmp_path, StatisticsSettings(), late)
    assert three.begin_hour(late)
    assert (tmp_path / TOTALS).read_text().startswith("9-550-7-2\n9--2--5--0--0\n\nHour totals - 0:0\n")
    (tmp_path / "current.json").write_text("{")
    assert not EventStatistics(tmp_path, StatisticsSettings(), late).begin_hour(late)


def test_a_full_disk_delays_and_repeats_nothing(tmp_path: Path) -> None:
    one = EventStatistics(tmp_path, StatisticsSettings(), NINE)
    one.received(1)
    one.processed(NINE)
    later = NINE + timedelta(days=1)
    with file_size_limit(10):
        for _ in range(2):
            with pytest.raises(OSError):
                one.begin_hour(later)
    assert one.begin_hour(later)
    assert not one.begin_hour(later)
    text = (tmp_path / TOTALS).read_text()
    assert text.count("9--0--1--0--0") == 1
    assert text.count("Total events") == 1
    assert Averages(tmp_path / "hourly-average").learned == 1


@pytest.mark.parametrize(
    ("torn", "kept"), [("8-550-7-2\n8--2--5--0--0\n\n9-55", "8-550-7-2\n8--2--5--0--0\n\n"), ("8-", "")]
)
def test_a_line_that_was_cut_does_not_glue_to_the_next(tmp_path: Path, torn: str, kept: str) -> None:
    (tmp_path / TOTALS).parent.mkdir(parents=True)
    (tmp_path / TOTALS).write_text(torn)
    one = EventStatistics(tmp_path, StatisticsSettings(), NINE)
    one.received(1)
    one.processed(NINE)
    assert one.begin_hour(NINE + timedelta(hours=1))
    assert (tmp_path / TOTALS).read_text() == f"{kept}9--0--1--0--0\n\n"
