"""Files of test cases: what they may say, and what they find (ruleset.md 12)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.engine.ruleset.case_files import CaseError, Result, find_files, read_cases, run_case
from secmon.engine.ruleset.compiled import Ruleset
from tests.engine.rules_kit import below, nodes

LOG = "Nov 14 22:13:20 hq noded: GET /x u=ana from 192.0.2.1 code 200"
OTHER = LOG.replace("GET", "PUT")
EXPECT = "rule = 100301\nalert = 5\ndecoder = node\n"


@pytest.fixture(scope="module")
def compiled() -> Ruleset:
    often = '<rule id="100302" level="9" frequency="3"><if_matched_sid>100301</if_matched_sid><same_user/><description>often</description></rule>'
    return nodes(below(100301, 5, "<match>GET</match>"), often, below(100303, 3, "<weekday>saturday</weekday>"))


def run(compiled: Ruleset, text: str) -> list[Result]:
    return [run_case(compiled, case) for case in read_cases(text, "f.ini")]


def test_pass_and_fail(compiled: Ruleset) -> None:
    text = f"[t]\nlog 1 pass = {LOG}\nlog 2 fail = {OTHER}\n{EXPECT}"
    assert [one.problem for one in run(compiled, text)] == ["", ""]
    swapped = f"; a comment\n\n[t]\nlog 1 fail = {LOG}\nlog 2 pass = {OTHER}\n{EXPECT}"
    problems = [one.problem for one in run(compiled, swapped)]
    assert problems == [
        "expected anything but rule 100301, level 5, decoder node; found rule 100301, level 5, decoder node",
        "expected rule 100301, level 5, decoder node; found rule 100300, level 0, decoder node",
    ]
    assert [(one.case.line, one.case.section, one.case.key) for one in run(compiled, swapped)] == [
        (4, "t", "log 1 fail"),
        (5, "t", "log 2 pass"),
    ]


def test_lines_of_one_key_are_one_session(compiled: Ruleset) -> None:
    three = f"[t]\nlog 1 pass = {LOG}\nlog 1 pass = {LOG}\nlog 1 pass = {LOG}\nrule = 100302\nalert = 9\ndecoder = node"
    (result,) = run(compiled, three)
    assert result.right
    assert result.rules == (100301, 100301, 100302)
    apart = f"[t]\nlog 1 fail = {LOG}\nlog 2 fail = {LOG}\nlog 3 fail = {LOG}\nrule = 100302\nalert = 9\ndecoder = node"
    assert all(one.right for one in run(compiled, apart))


def test_nothing_is_an_expectation_like_any_other(compiled: Ruleset) -> None:
    none = "rule =\nalert =\ndecoder =\n"
    assert [one.right for one in run(compiled, f"[t]\nlog 1 pass = what\nlog 2 fail = what\n{none}")] == [True, False]


def test_fields_of_passes(compiled: Ruleset) -> None:
    text = f"[t]\nlog 1 pass = {LOG}\nlog 2 fail = {OTHER}\nfield srcip = 192.0.2.1\n{EXPECT}"
    assert all(one.right for one in run(compiled, text))
    wrong, _ = run(compiled, text.replace("srcip = 192.0.2.1", "srcip = 192.0.2.9"))
    assert wrong.problem == "field srcip: expected '192.0.2.9'; found '192.0.2.1'"
    absent, _ = run(compiled, text.replace("field srcip", "field zone"))
    assert absent.problem == "field zone: expected '192.0.2.1'; found nothing"


def test_time_of_processing(compiled: Ruleset) -> None:
    text = f"[t]\nlog 1 pass = {OTHER}\nrule = 100303\nalert = 3\ndecoder = node\n"
    assert not run(compiled, text)[0].right
    assert run(compiled, text + "at = 2024-01-06T03:00\n")[0].right
    assert read_cases(text + "at = 2024-01-06", "f")[0].at == datetime(2024, 1, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("log 1 pass = x", "f.ini:1: the first line must name a section"),
        ("[t]\nrule = 1\nalert = 1\ndecoder =", "f.ini:1: section 't' has no logs"),
        ("[t]\nlog 1 pass = x\nrule = 1\n[u]", "f.ini:1: section 't' does not say alert and decoder"),
        ("[t]\nlog 1 maybe = x", "f.ini:2: unknown key 'log 1 maybe'"),
        ("[t]\nlog", "f.ini:2: no '=' in 'log'"),
        ("[t]\nlog 1 pass = x\nat = noon", "f.ini:3: 'noon' is not a time"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    with pytest.raises(CaseError) as caught:
        read_cases(text, "f.ini")
    assert str(caught.value).startswith(problem)


def test_files_of_folders(tmp_path: Path) -> None:
    for name in ("b.ini", "a.ini", "sub/c.ini", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [path.name for path in find_files((tmp_path, tmp_path / "notes.txt"))]
    assert found == ["a.ini", "b.ini", "c.ini", "notes.txt"]


def test_events_of_windows_channels() -> None:
    rule = '<rule id="100400" level="4"><category>ossec</category><decoded_as>windows_eventchannel</decoded_as><description>x</description></rule>'
    event = '{"Message":"m","Event":"<Event><System><EventID>7</EventID></System></Event>"}'
    text = f"[t]\nlog 1 pass = {event}\nrule = 100400\nalert = 4\ndecoder = windows_eventchannel\n"
    compiled = nodes(rule)
    assert run(compiled, text + "type = f\nfield win.system.eventID = 7")[0].problem == ""
    assert not run(compiled, text)[0].right


def test_events_of_scans() -> None:
    rule = '<rule id="100400" level="4"><category>ossec</category><decoded_as>sca</decoded_as><field name="sca.type">^check$</field>{}<description>x</description></rule>'
    text = (
        '[t]\nlog 1 pass = {"sca":{"type":"check"},"log":"door"}\nrule = 100400\nalert = 4\ndecoder = sca\ntype = sca\n'
    )
    assert run(nodes(rule.format("<match>door</match>")), text)[0].problem == ""
    assert not run(nodes(rule.format("<match>window</match>")), text)[0].right
    with pytest.raises(CaseError, match="logs of type sca are JSON objects"):
        read_cases(text.replace('{"sca"', '["sca"'), "f.ini")


def test_findings_that_are_new() -> None:
    rule = '<rule id="100400" level="4"><category>ossec</category><decoded_as>rootcheck</decoded_as><if_fts/><description>x</description></rule>'
    text = '[t]\nlog 1 pass = {"first_seen":true}\nlog 2 fail = {}\nrule = 100400\nalert = 4\ndecoder = rootcheck\ntype = rootcheck\n'
    assert [one.problem for one in run(nodes(rule), text)] == ["", ""]
