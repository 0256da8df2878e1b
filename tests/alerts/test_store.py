"""Questions to the store of one node."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.alerts import store as store_module
from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.alerts.store import AlertStore, Place
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from tests.alerts.filled_store import fill
from tests.outputs.alert_files import alert

AT = 1_795_348_800_123
"""Of the alerts of ``alert``."""


def stamp(second: int) -> str:
    return f"2026-11-22T12:{second // 60:02d}:{second % 60:02d}.123+0000"


ALERTS: list[dict[str, Any]] = [
    alert(1, level=3, data={"srcip": "192.0.2.1", "port": "99", "user": "Anna"}),
    alert(2, level=9, data={"srcip": "192.0.2.2", "port": "1000", "user": "root"}, timestamp=stamp(60)),
    alert(3, level=12, agent={"id": "004", "name": "db-4"}, data={"win": {"id": 7, "ok": True}}, timestamp=stamp(120)),
    alert(
        4,
        agent={"id": "004", "name": "db-4"},
        syscheck={"path": "/etc/pass*wd [x](.*)", "tags": ["a", "b"], "mtime": "2026-11-20T10:00:00", "text": "x\ny"},
        full_log="Datei geändert: /etc/passwd\nInhalt ÜBER alles",
        timestamp=stamp(180),
    ),
    alert(5, agent={"id": "000", "name": "mgr"}, full_log="x" * 20_000, data={"long": "y" * 600}, timestamp=stamp(181)),
]  # fmt: skip
ALL = [5, 4, 3, 2, 1]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> AlertStore:
    folder = tmp_path_factory.mktemp("alerts")
    fill(folder, ALERTS)
    return AlertStore(folder, SystemClock())


def numbers(store: AlertStore, **question: Any) -> list[int]:
    """Of the alerts that meet the question, newest first; the total agrees."""
    page = store.newest(AlertQuestion(**question), 100)
    assert page.total == len(page.alerts)
    assert not page.more
    return [number_of(one.line) for one in page.alerts]


def number_of(line: bytes) -> int:
    return int(msgspec.json.decode(line)["id"].partition(".")[2])


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("data.srcip=192.0.2.1", [1]),
        ("data.srcip!=192.0.2.1", [4, 2]),
        ("data.srcip~192.0.2", [2, 1]),
        ("data.srcip~192.0.2.2", [2]),
        ("data.srcip~2.0.2.20", []),
        ("data.user=anna", []),
        ("data.port>99", [2]),
        ("data.port<1000", [1]),
        ("data.port<100.5", [1]),
        ("data.user<a", [1]),
        ("rule.level>8", [3, 2]),
        ("rule.level>8;agent.id=004", [3]),
        ("rule.level>8,agent.id=004", [4, 3, 2]),
        ("(data.port=99,data.port=1000);data.user=root", [2]),
        ("data.win.ok=true", [3]),
        ("data.win.id=7", [3]),
        ("data.win=7", []),
        ("data.wi~7", []),
        ("syscheck.path~wd [x]", [4]),
        ("syscheck.path~pass.wd", []),
        ("syscheck.tags=b", [4]),
        ("syscheck.tags!=b", []),
        ("syscheck.text~y", [4]),
        ("syscheck.mtime>2026-11-19", [4]),
        ("syscheck.mtime>2026-11-20 10:00:00", []),
        ("rule.groups=sshd", ALL),
        ("nothing=1", []),
    ],
)
def test_conditions_on_any_field(filled: AlertStore, q: str, found: list[int]) -> None:
    assert numbers(filled, q=q) == found


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("Nov sshd", [3, 2, 1]),
        ("FAILED password", [3, 2, 1]),
        ('"password for root"', [3, 2, 1]),
        ('"root password"', []),
        ("geändert über", [4]),
        ("/etc/passwd", [4]),
        ("192.0.2.2", [2]),
        ("-nov", [5, 4]),
        ("db-4", [4, 3]),
    ],
)
def test_words(filled: AlertStore, search: str, found: list[int]) -> None:
    assert numbers(filled, search=search) == found


def test_times_levels_values_and_agents(filled: AlertStore) -> None:
    assert numbers(filled, since=AT) == ALL
    assert numbers(filled, since=AT + 1, until=AT + 120_000) == [2]
    assert numbers(filled, since=AT + 60_000, until=AT + 120_001) == [3, 2]
    assert numbers(filled, levels=(9, 12)) == [3, 2]
    assert numbers(filled, values={"rule.id": ("1", "5716"), "rule.groups": ("none",)}) == []
    assert numbers(filled, agents=AgentSelection(("004", "000"), excluded=False)) == [5, 4, 3]
    assert numbers(filled, agents=AgentSelection(("004", "000"), excluded=True)) == [2, 1]
    assert numbers(filled, agents=AgentSelection((), excluded=False)) == []


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"q": "full_log~x"}, 1408),
        ({"q": "timestamp>2026-11-22"}, 1408),
        ({"q": "a=="}, 1409),
        ({"q": "a"}, 1407),
        ({"q": ",".join(["a~b"] * 21)}, 1407),
        ({"q": "a~" + "b" * 257}, 1407),
        ({"search": "..."}, 1407),
        ({"search": "a " * 51}, 1407),
        ({"search": "a" * 9000}, 1407),
    ],
)
def test_what_cannot_be_asked_is_refused(filled: AlertStore, question: dict[str, str], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        filled.newest(AlertQuestion(**question), 1)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_field_with_too_many_values_is_not_compared(filled: AlertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secmon.alerts.index_query.MAX_COMPARED", 1)
    with pytest.raises(SecmonError) as caught:
        filled.newest(AlertQuestion(q="data.port>5"), 1)
    assert caught.value.code == 1407


def test_counts_and_histogram(filled: AlertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = filled.count_values(AlertQuestion(), "agent.id")
    assert (counts.counts, counts.total, counts.missing) == ({"003": 2, "004": 2, "000": 1}, 5, 0)
    assert filled.count_values(AlertQuestion(q="rule.level>8"), "rule.level").counts == {"9": 1, "12": 1}
    start = AT - AT % 60_000
    assert filled.histogram(AlertQuestion(), 60_000) == {start + 60_000 * at: 1 + (at == 3) for at in range(4)}
    monkeypatch.setattr(store_module, "MAX_KEYS", 1)
    cut = filled.count_values(AlertQuestion(), "agent.id")
    assert len(cut.counts) == 1
    assert cut.missing >= 2


def test_pages_behind_a_place(filled: AlertStore) -> None:
    found, place = [], None
    while True:
        page = filled.newest(AlertQuestion(), 2, place=place)
        assert page.total == 5
        found += [number_of(one.line) for one in page.alerts]
        if not page.more:
            break
        place = Place(page.alerts[-1].order)
    assert found == ALL
    again = filled.newest(AlertQuestion(), 1, place=Place(page.alerts[-1].order, included=True))
    assert number_of(again.alerts[0].line) == found[-1]


def test_a_long_answer_is_cut_and_goes_on(filled: AlertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_BYTES", 10)
    page = filled.newest(AlertQuestion(), 3)
    assert len(page.alerts) == 1
    assert page.more
    found, last = filled.stored_after(AlertQuestion(), (AT + 60_000) * 1000, 100)
    assert [number_of(one.line) for one in found] == [3]
    assert last == found[0].sequence == (AT + 120_000) * 1000


def test_what_was_stored_after_an_alert(filled: AlertStore) -> None:
    found, last = filled.stored_after(AlertQuestion(levels=(1, 8)), AT * 1000, 10)
    assert [number_of(one.line) for one in found] == [4, 5]
    assert last == filled.last_sequence()
    assert filled.stored_after(AlertQuestion(), last, 10) == ([], last)


def test_the_deadline_ends_a_question(filled: AlertStore) -> None:
    with pytest.raises(SecmonError) as caught:
        filled.newest(AlertQuestion(), 1, deadline=0.0)
    assert caught.value.code == 3021


def test_an_empty_store_has_no_alerts(tmp_path: Path) -> None:
    empty = AlertStore(tmp_path / "none", SystemClock())
    assert empty.newest(AlertQuestion(), 5).total == 0
    assert empty.count_values(AlertQuestion(), "rule.id").counts == {}
    assert empty.last_sequence() == 0


def test_values_beyond_the_limit_of_an_alert_are_not_indexed(tmp_path: Path) -> None:
    fill(tmp_path, [alert(1, data={"many": [str(one) for one in range(5000)]})])
    store = AlertStore(tmp_path, SystemClock())
    assert numbers(store, q="data.many=1") == [1]
    assert numbers(store, q="data.many=4999") == []
