"""Which alerts silences hold back."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from secmon.alerts.question import AgentSelection
from secmon.alerts.silences import KEPT, Silence, Silences, change_silence, forget_ended, in_milliseconds, read_silences
from secmon.common.counters import Counters
from secmon.security.store import schema
from tests.alerts.silenced import NOON, open_master, silence
from tests.manual_clock import ManualClock
from tests.outputs.alert_files import alert


def at(second: float, **fields: Any) -> dict[str, Any]:
    moment = NOON + timedelta(seconds=second)
    return alert(1, timestamp=moment.isoformat(timespec="milliseconds"), **fields)


def _covering(silences: Silences, fields: dict[str, Any]) -> Silence | None:
    silences.refresh()
    return silences.covering(fields)


def test_an_alert_is_judged_by_its_own_time(tmp_path: Path) -> None:
    path = tmp_path / "security.db"
    with closing(open_master(path)) as store, closing(Silences(path)) as silences:
        first = silence(store, seconds=(60, 120), values={"rule.id": ("5716",)})
        second = silence(store, seconds=(90, 180), q="rule.level>11")
        found = {
            second: _covering(silences, at(second, level=12)) for second in (59.999, 60, 119.999, 120, 179.999, 180)
        }
        assert [one and one.id for one in found.values()] == [None, first, first, second, second, None]
        assert _covering(silences, at(60, rule={"id": "1", "level": 3})) is None
        with store.write() as tx:
            clock = ManualClock(NOON + timedelta(seconds=100))
            change_silence(tx, read_silences(tx)[0], clock, until=in_milliseconds(clock.now()), reason=None)
        assert _covering(silences, at(99)) is not None, "it arose before the end"
        assert _covering(silences, at(100)) is None
        counters = Counters()
        assert silences.hold(at(99), counters)
        assert not silences.hold(at(100), counters)
        assert counters.snapshot() == {f"silences.held.{first}": 1}


def test_without_a_store_there_are_no_silences(tmp_path: Path) -> None:
    path = tmp_path / "security.db"
    with closing(Silences(path)) as silences:
        assert _covering(silences, at(1)) is None
        with closing(open_master(path)) as store:
            silence(store, levels=(0, 16))
        assert _covering(silences, at(1)) is not None


def test_a_store_that_cannot_be_read_leaves_the_silences_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "security.db"
    with closing(open_master(path)) as store, closing(Silences(path)) as silences:
        silence(store, levels=(0, 16))
        assert _covering(silences, at(1)) is not None
        with store.write() as tx:
            tx.put(schema.silences, tx.select(schema.silences)[0] | {"id": 999, "question": "damaged"})
        for _ in range(3):
            assert _covering(silences, at(1)) is not None
        assert len(caplog.records) == 1
        with store.write() as tx:
            for row in tx.select(schema.silences):
                tx.delete(schema.silences, row["id"])
        assert _covering(silences, at(1)) is None


def test_an_alert_that_is_nested_too_deeply_is_delivered(tmp_path: Path) -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"a": nested}
    path = tmp_path / "security.db"
    with closing(open_master(path)) as store, closing(Silences(path)) as silences:
        silence(store, q="data.b=1")
        assert _covering(silences, at(1, data=nested)) is None


def test_silences_that_have_ended_long_ago_are_forgotten(tmp_path: Path) -> None:
    with closing(open_master(tmp_path / "security.db")) as store:
        kept = [silence(store, seconds=(0, end), levels=(0, 16)) for end in (10, 20)]
        with store.write() as tx:
            assert forget_ended(tx, ManualClock(NOON + KEPT + timedelta(seconds=15))) == 1
            assert [one.id for one in read_silences(tx)] == kept[1:]


SELECTIONS: list[tuple[tuple[set[str], bool], tuple[set[str], bool], bool]] = [
    ((set(), True), (set(), True), True),
    (({"1"}, False), (set(), True), True),
    (({"1"}, False), ({"1", "2"}, False), True),
    (({"1", "3"}, False), ({"1", "2"}, False), False),
    (({"1"}, False), ({"1"}, True), False),
    (({"1"}, False), ({"2"}, True), True),
    ((set(), True), ({"1"}, True), False),
    (({"1", "2"}, True), ({"1"}, True), True),
    (({"1"}, True), ({"1", "2"}, False), False),
    ((set(), False), (set(), False), True),
]


@pytest.mark.parametrize(("inner", "outer", "within"), SELECTIONS)
def test_agents_among_others(inner: tuple[set[str], bool], outer: tuple[set[str], bool], within: bool) -> None:
    one, other = (AgentSelection(tuple(sorted(ids)), excluded) for ids, excluded in (inner, outer))
    assert one.within(other) is within
