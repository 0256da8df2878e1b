"""The index and the judgement in memory agree on every alert and every question."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from secmon.alerts.alert_reader import Line, Position
from secmon.alerts.conditions import AlertConditions
from secmon.alerts.document import read_alert
from secmon.alerts.generations import current
from secmon.alerts.judging import AlertTest, JudgedAlert
from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.alerts.store import AlertStore
from secmon.alerts.writer import AlertWriter, StoreLimits
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.query.syntax import And, Clause, Op, Or
from tests.outputs.alert_files import NOON, alert

START = 1_795_348_800_000
KEYS = ("a", "b", "a.b", "a=b", "Ä")
FIELDS = ("data.a", "data.b", "data.a.b", "data.Ä", "data.none", "rule.level", "agent.id", "rule.groups")
TEXTS = (
    "", "x", "X", "x y", "y=x", "1", "10", "9.5", "-3", "2026-11-20", "2026-11-20T10:00:00Z", "2026-02-30", "ä\nß", "İ",
    "x" * 127, "x" * 128, "ä" * 63, "ä" * 64, "z" * 512, "z" * 513, "wd [x].{1}\\", "true", "a  b-c",
)  # fmt: skip
SCALARS = st.one_of(st.sampled_from(TEXTS), st.text(max_size=6), st.integers(-5, 20), st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2),
    max_leaves=5,
)
WORDS = st.sampled_from(("x", "y", "X", "ä", "ß", "i̇", "x" * 127, "x" * 128, "Failed", "password", "1", "a", "b", "c"))
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
LOGS = st.lists(WORDS | st.sampled_from((", ", "\n", "-")), max_size=8).map(" ".join)
ALERTS = st.lists(
    st.builds(
        lambda second, level, agent, data, log: alert(
            1,
            level=level,
            agent={"id": agent, "name": f"host-{agent}"},
            data=data,
            full_log=log,
            timestamp=f"2026-11-22T12:00:{second:02d}.000+0000",
        ),
        second=st.integers(0, 9),
        level=st.integers(0, 16),
        agent=st.sampled_from(("000", "001", "002")),
        data=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
        log=LOGS,
    ),
    min_size=1,
    max_size=25,
)
ASKED = st.sampled_from(
    ("x", "X", "y=x", "1", "10", "9.5", "-3", "2026-11-20", "2026-11-20 10:00:00", "2026-02-30", "z" * 250, "wd", "[x]",
     ".", "{1}\\", "true", "002", "sshd", " ", "ä", "x y")
)  # fmt: skip
CLAUSES = st.builds(Clause, st.sampled_from(FIELDS), st.sampled_from(Op), ASKED)
TREES = st.recursive(
    CLAUSES,
    lambda inner: st.builds(
        lambda kind, terms: kind(tuple(terms)), st.sampled_from((And, Or)), st.lists(inner, min_size=2, max_size=3)
    ),
    max_leaves=6,
)
SEARCHES = st.builds(
    lambda minus, words, phrase: f"{minus}{words}" + (f' "{phrase}"' if phrase else ""),
    st.sampled_from(("", "-")), PHRASES, st.none() | PHRASES,
)  # fmt: skip
AGENTS = st.builds(
    AgentSelection,
    st.lists(st.sampled_from(("000", "001", "002", "777")), unique=True, max_size=2).map(tuple),
    st.booleans(),
)
TIMES = st.none() | st.integers(-1, 11).map(lambda second: START + second * 1000)
QUESTIONS = st.builds(
    AlertQuestion,
    agents=st.just(AgentSelection()) | AGENTS,
    since=TIMES,
    until=TIMES,
    q=st.none() | TREES.map(str),
    search=st.none() | SEARCHES,
    levels=st.none() | st.tuples(st.integers(0, 8), st.integers(5, 16)),
    values=st.dictionaries(
        st.sampled_from(("rule.id", "rule.groups", "data.a")),
        st.lists(st.sampled_from(("5716", "sshd", "1", "x")), max_size=2).map(tuple),
        max_size=1,
    ),
)


def askable(question: AlertQuestion) -> bool:
    try:
        AlertConditions(question)
    except SecmonError:  # words that are all too long
        return False
    return True


def stored(folder: Path, lines: list[bytes]) -> AlertStore:
    writer = AlertWriter(current(folder), StoreLimits(partition_alerts=1000))
    writer.turn_over(NOON.date())
    offset = 0
    for line in lines:
        writer.add([Line(line, offset)], NOON.date())
        offset += len(line) + 1
    writer.commit(Position(day=NOON.date(), offset=offset))
    writer.close()
    return AlertStore(folder, SystemClock())


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(alerts=ALERTS, questions=st.lists(QUESTIONS.filter(askable), min_size=10, max_size=20))
def test_index_and_memory_agree(alerts: list[dict[str, Any]], questions: list[AlertQuestion]) -> None:
    """An example that fails is not made smaller: each one builds a store, so that it would take minutes."""
    lines = [msgspec.json.encode(one | {"id": f"1700000000.{number}"}) for number, one in enumerate(alerts)]
    judged = [JudgedAlert(read_alert(line).fields) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        store = stored(Path(folder), lines)
        for question in questions:
            found = sorted(one.line for one in store.newest(question, len(lines)).alerts)
            test = AlertTest(AlertConditions(question))
            assert sorted(line for line, one in zip(lines, judged, strict=True) if test.meets(one)) == found, question


def test_an_alert_without_a_time_is_none() -> None:
    test = AlertTest(AlertConditions(AlertQuestion()))
    for timestamp in (None, 5, "soon", "2026-11-22T12:00:00"):
        assert not test.meets(JudgedAlert(alert(1, timestamp=timestamp)))
    assert test.meets(JudgedAlert(alert(1)))
