"""Events of attackers: no bytes raise an error, each line is JSON, and rules find what they look for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.analysis_thread import _FAILURES
from secmon.engine.decoders.json_text import CUT_FROM
from secmon.engine.lookahead.codec import LookaheadCodec
from secmon.engine.lookahead.stateless import look_ahead, stateless_engine
from secmon.engine.matching import matchers
from secmon.engine.output.document import Labels, encode
from secmon.engine.pipeline import FAILED
from secmon.engine.ruleset.case_files import find_files, read_cases, read_file, run_case
from secmon.engine.ruleset.compiled import Ruleset, compile_ruleset
from secmon.engine.ruleset.sources import collect_folder
from tests.engine.analysis_kit import Analysis, analysing
from tests.engine.rules_kit import START, ruleset
from tests.engine.test_analysis_thread import PLAIN, app
from tests.folders import REPOSITORY
from tests.fuzz.effort import EXAMPLES, effort

ALL = """<group name="all,">
<rule id="100001" level="3"><match></match><description>$(a) $(b) $(srcip) $(win.eventdata.x) $(hostname)</description></rule>
<rule id="100002" level="12"><field name="event">^break-in$</field><description>break-in at $(where)</description></rule>
<rule id="100003" level="5"><if_sid>100001</if_sid><check_diff/><description>changed</description></rule>
</group>"""
ARCHIVES = "<global><logall>yes</logall><logall_json>yes</logall_json></global>"


class PipelineHarness:
    """A pipeline of one thread with all of its outputs; what each event has left behind."""

    def __init__(self, root: Path, rules: Ruleset) -> None:
        self.analysis = Analysis(root, rules, config=ARCHIVES, labels=lambda agent: Labels(None, [("a.b", agent)]))
        self.pipeline = self.analysis.thread.pipeline
        self.pipeline.begin_batch(START)
        self._ahead, self._codec = stateless_engine(rules, b"mgr"), LookaheadCodec(rules)
        self._files = [root / f"logs/{name}.json" for name in ("alerts/alerts", "archives/archives")]
        self._read = [0, 0]

    def handle(self, data: bytes) -> tuple[list[Any], list[Any]]:
        """Alerts and archived events of ``data``: each line is what RFC 8259 calls JSON."""
        self._codec.encode(look_ahead(self._ahead, data, START, archiving=True))
        self.pipeline.handle(data, START)
        self.pipeline.outputs.flush()
        found = []
        for number, path in enumerate(self._files):
            with path.open("rb") as file:
                file.seek(self._read[number])
                lines = file.read()
            self._read[number] += len(lines)
            assert lines == b"" or lines.endswith(b"\n")
            found.append([strict(line) for line in lines.split(b"\n")[:-1]])
        return found[0], found[1]

    def close(self) -> None:
        self.pipeline.outputs.close()
        self.analysis.close()


def strict(line: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    made = json.loads(line.decode(), parse_constant=refuse)
    assert isinstance(msgspec.json.decode(line), dict)
    assert not re.search(rb"[\x00-\x1f]", line)
    return made


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipelineHarness]:
    sources = collect_folder(REPOSITORY / "ruleset")
    rules = [*sources.rules, ("etc/rules/all.xml", ALL.encode())]
    made = PipelineHarness(
        tmp_path_factory.mktemp("harness"), compile_ruleset(sources.decoders, sources.lists, rules, None)
    )
    yield made
    made.close()


BYTES = st.binary(max_size=40)
ODD = st.sampled_from(
    [
        b"\\ud800", b"\\udcff", b"\xed\xa0\x80", b"\xff", b"\x00", b"\n", b"\\", b'\\"', b'"', b"{", b"}", b"[", b"]", b",",
        b":", b"007", b"1e999", b"9" * 400, b"." * 300, b"a." * 300, b"[" * 300, b'{"a":' * 300, b"]]]}", b"\\u0000",
        b"</Data>", b"<Data>", b"<!", b"%s", b"$(a)", b"-", b"(x) any->", b"|", b"Nov 14 22:13:20 h p: ", b" ",
    ]
)  # fmt: skip
TEXTS = st.lists(
    BYTES | ODD | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")), max_size=6
).map(b"".join)
QUOTED = TEXTS.map(lambda text: b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"')
NUMBERS = st.from_regex(rb"-?0{0,3}[0-9]{1,30}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
VALUES = st.recursive(
    QUOTED | NUMBERS | st.sampled_from([b"true", b"null", b'"\\ud800"', b'"\\q\\x41"']),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: b"[" + b",".join(parts) + b"]")
        | st.lists(st.tuples(QUOTED, inner), max_size=4).map(
            lambda members: b"{" + b",".join(name + b":" + value for name, value in members) + b"}"
        )
    ),
    max_leaves=10,
)
WINDOWS = st.builds(
    lambda event, message: b'{"Message":' + message + b',"Event":' + event + b"}",
    QUOTED | TEXTS.map(lambda text: json.dumps(f"<Event><System><Level/></System><EventData><Data Name='x'>{text.decode('latin-1')}</Data></EventData></Event>").encode()),
    QUOTED,
)  # fmt: skip
LOGS = TEXTS | VALUES | WINDOWS | st.builds(lambda head, text: head + text, ODD, TEXTS)
MESSAGES = st.builds(
    lambda queue, place, log: queue + b":" + place + b":" + log,
    st.sampled_from([b"1", b"2", b"4", b"f", b"8", b"x", b"\xff"]),
    st.sampled_from([b"/x", b"[001] (web) any->/x", b"(s) u@h->/x"])
    | TEXTS.map(lambda text: text.replace(b":", b"|:")),
    LOGS,
)


@effort(600)
@given(MESSAGES | BYTES)
def test_no_event_raises(harness: PipelineHarness, message: bytes) -> None:
    harness.handle(message)


@effort(600)
@given(VALUES, QUOTED, st.booleans())
def test_no_value_hides_an_event(harness: PipelineHarness, value: bytes, name: bytes, last: bool) -> None:
    """Who controls a value, or a name, cannot keep a rule from seeing the rest, nor change what was said before."""
    if not last:
        name = b'"event"'
    found, _ = harness.handle(b'1:/x:{"event":"break-in","where":"gate",' + name + b":" + value + b',"to":1}')
    assert [(one["rule"]["level"], one["rule"]["description"]) for one in found] == [(12, "break-in at gate")]
    assert found[0]["data"]["to"] == "1"


@effort(200)
@given(VALUES, QUOTED, st.integers(1))
def test_no_value_hides_what_comes_before_it_by_its_length(
    harness: PipelineHarness, value: bytes, name: bytes, cut: int
) -> None:
    head, member, long = b'{"event":"break-in","where":"gate",', name + b":" + value, b'"' + b"x" * CUT_FROM
    logs = [
        head + member + b',"pad":' + long,
        head + member + b',"pad":' + b"[" * CUT_FROM,
        head + b'"pad":' + long + b'",' + member[: cut % len(member)],
    ]
    for log in logs:
        found, _ = harness.handle(b"1:/x:" + log)
        assert [one["rule"]["id"] for one in found] == ["100002"]


def corpus() -> list[bytes]:
    """Every log of the cases of the ruleset, as a message."""
    cases = [case for path in find_files((REPOSITORY / "tests/ruleset",)) for case in read_file(path)]
    queues = {"1": b"1", "f": b"f"}
    return [queues.get(case.queue, b"1") + b":/x:" + log for case in cases for log in case.logs]


def mutated(data: bytes, random: Random, pieces: list[bytes]) -> bytes:
    made = bytearray(data)
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(made) + 1)
        match random.randrange(5):
            case 0:
                made[at : at + 1] = random.randbytes(1)
            case 1:
                made[at:at] = random.choice(pieces)
            case 2:
                del made[at : at + random.randint(1, 20)]
            case 3:
                made[at:at] = made[max(0, at - random.randint(1, 60)) : at]
            case _:
                other = random.choice(pieces)
                made[at:] = other[random.randrange(len(other) + 1) :]
    return bytes(made)


def test_no_mutated_event_raises(harness: PipelineHarness) -> None:
    known = corpus()
    odd = [b"\\ud800", b"\xff", b"\x00", b"\n", b"\\", b'"', b"{", b"}", b"[", b"]", b"," + b"9" * 400, b"[" * 400]
    random = Random(1)
    for number in range(200_000 if EXAMPLES else 1500):
        message = mutated(random.choice(known), random, odd if number % 2 else known)
        try:
            harness.handle(message)
        except Exception as error:
            raise AssertionError(f"message {number}: {message!r}") from error


@pytest.mark.parametrize(
    "log",
    [
        b'{"a\xff":1}',
        b'{"\\ud800":"\\udfff"}',
        b'{"' + b"a." * 30_000 + b'":1}',
        b'{"a":"[' + b"[" * 500 + b"]" * 500 + b']"}',
        b'{"a":"[\\"\xff\\"]"}',
        b'{"a":"[1e999]"}',
        b'{"a":' + b"9" * 350 + b"}",
        b"\xff" * 60_000,
        b"Nov 14 22:13:20 h p: \xed\xa0\x80",
    ],
    ids=range(9),
)
def test_each_becomes_an_alert(harness: PipelineHarness, log: bytes) -> None:
    found, archived = harness.handle(b"1:/x:" + log)
    assert len(found) == len(archived) == 1
    assert found[0]["full_log"] == log.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    "log",
    [
        b'{"' + b"k" * 30_000 + b'":{' + b",".join(b'"%d":1' % one for one in range(3000)) + b"}}",
        b'{"' + b"\xff" * 30_000 + b'":{' + b",".join(b'"%d":1' % one for one in range(3000)) + b"}}",
        b'{"a":' + b"[" * 90 + b"{" + b",".join([b'"":1'] * 12_000) + b"}" + b"]" * 90 + b"}",
        b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b"{" + b",".join(b'"%d.%b":1' % (one, b"a." * 100) for one in range(250)) + b"}",
    ],
    ids=["name", "name without UTF-8", "tabs", "depth", "dots"],
)
def test_what_an_event_leaves_behind_is_bounded(harness: PipelineHarness, log: bytes) -> None:
    text = harness.analysis.paths.logs / "alerts/alerts.log"
    before = text.stat().st_size
    (made,), _ = harness.handle(b"1:/x:" + log)
    assert text.stat().st_size - before < 30 * len(log)
    assert len(encode(made)) < 30 * len(log)


def test_hosts_of_any_name_have_their_last_content(harness: PipelineHarness) -> None:
    names = [b"..", b"../../x", b"c\x00d", b"a" * 5000, "ä".encode() * 200, b"\xff", b"a\nb"]
    for log in (b"one", b"two"):
        found = [harness.handle(b"1:[001] (" + name + b") any->/x:plain " + log)[0] for name in names]
    assert [one[0]["rule"]["id"] for one in found] == ["100003"] * len(names)
    root = harness.analysis.paths.root
    harness.analysis.thread._flushes[-1]()
    assert {path.parent.parent.parent for path in root.rglob("last-entry")} == {root / "queue/diff"}


def test_a_failure_costs_little_and_hides_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Unavailable labels, as an example of a defect: the event is an alert as it came, and the log stays short."""

    def broken(agent: str) -> Labels | None:
        raise ZeroDivisionError("x" * 10_000)

    with analysing(tmp_path, PLAIN, labels=broken) as one:
        one.send([app(number, "[007] (web) any|->/x") for number in range(50)] + [app(50)])
        one.drained()
        alerts = one.alerts()
        assert [alert["rule"]["id"] for alert in alerts] == [str(FAILED.id)] * 50 + ["100001"]
        assert [alert["full_log"] for alert in alerts] == [f"app {number}" for number in range(51)]
        assert alerts[0]["agent"]["id"] == "007"
        assert (one.event_counters.failed, one.event_counters.unwritten) == (50, 0)
        assert (tmp_path / "logs/alerts/alerts.log").read_bytes().count(b"** Alert") == 51
    assert caplog.text.count("could not be analysed") == _FAILURES
    assert f"ZeroDivisionError: {50 - _FAILURES} more" in caplog.text
    assert len(caplog.text) < 20_000


def test_a_rule_that_fails_hides_nothing(tmp_path: Path) -> None:
    rules = ruleset(
        '<decoder name="app"><prematch>^app </prematch></decoder>',
        '<group name="app,"><rule id="100001" level="5"><decoded_as>app</decoded_as><description>x</description></rule></group>',
    )
    rules.rules.by_id[100001].conditions = (lambda event, state: 1 // 0 > 0,)
    with analysing(tmp_path, rules) as one:
        one.send(["1:/x:app 1", "1:/x:other"])
        one.drained()
        found = [(alert["rule"]["id"], alert["full_log"]) for alert in one.alerts()]
        assert found == [(str(FAILED.id), "app 1"), (str(FAILED.id), "other")]
        assert one.event_counters.failed == 2


@pytest.mark.parametrize(
    "costly",
    ['<regex type="pcre2">(a+)+$</regex>', r"<regex>(\w+)a\w+a\w+a\w+a\d|login (a)</regex>"],
    ids=["pcre2", "osregex"],
)
@pytest.mark.parametrize("where", ["rule", "decoder"])
def test_a_pattern_that_gives_up_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, costly: str
) -> None:
    monkeypatch.setattr(matchers, "MAX_REPEATED", 10_000)  # of the plain form, which is slow
    rules = ruleset(
        f'<decoder name="app"><prematch>^app </prematch>{costly * (where == "decoder")}'
        f"{'<order>x</order>' * (where == 'decoder')}</decoder>",
        '<group name="app,"><rule id="100001" level="5"><decoded_as>app</decoded_as><match>login</match>'
        f"{costly * (where == 'rule')}<description>x</description></rule></group>",
    )
    log = f"app login {'a' * 300} b"
    with analysing(tmp_path, rules) as one:
        one.send([f"1:/x:{log}", "1:/x:app login a"])
        one.drained()
        assert [(alert["rule"]["id"], alert["full_log"]) for alert in one.alerts()] == [
            (str(FAILED.id), log),
            ("100001", "app login a"),
        ]
        assert one.event_counters.failed == 1
    case = read_cases(f"[a]\nlog 1 pass = {log}\nrule = 100001\nalert = 5\ndecoder = app\n", "a.ini")[0]
    assert "costs too much on this event" in run_case(rules, case).problem
