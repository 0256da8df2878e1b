"""Both forms of the matchers, plain and compiled, against the published algorithm and against each other."""

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from secmon.engine.matching import MatchLimit, matchers
from secmon.engine.matching.implementation import compiled
from secmon.engine.matching.matchers import NO_MATCH, UNSET, Program, end_index, first_start, groups_between
from secmon.engine.matching.osregex import OSRegexError, parse
from secmon.engine.ruleset.case_files import find_files, read_file
from tests.engine.matching.osregex_model import model_capture, model_search
from tests.engine.matching.osregex_strategies import ANY_SUBJECT, PATTERNS, SUBJECTS, WHOLE_LANGUAGE
from tests.folders import REPOSITORY

NOT_COMPILED = pytest.mark.skipif(compiled is None, reason="the matchers are not compiled: run make install")
FORMS = [pytest.param(matchers, id="plain"), pytest.param(compiled, id="compiled", marks=NOT_COMPILED)]
PRESENT: list[Any] = [matchers] if compiled is None else [matchers, compiled]
EITHER = pytest.mark.parametrize("form", FORMS)


@settings(max_examples=2000)
@given(WHOLE_LANGUAGE, st.lists(ANY_SUBJECT, min_size=3, max_size=3))
@example(rb"\S*$", [b"x ="])
@example(rb"(\S+)(\w*)$", [b"ab("])
@example(rb"\d*\s*\w*\W*$", [b"", b"1"])
@example(rb"\w+\d\w*", [b"a", b"a1"])
def test_it_is_the_published_matcher(pattern: bytes, subjects: list[bytes]) -> None:
    for form in PRESENT:
        matcher = form.RegexMatcher(pattern, parse(pattern))
        for subject in subjects:
            end = model_search(pattern, subject)
            assert matcher.search(subject) == end
            assert matcher.test(subject) is (end is not None)
            assert matcher.capture(subject) == model_capture(pattern, subject)


@NOT_COMPILED
@settings(max_examples=500)
@given(st.binary(max_size=60) | WHOLE_LANGUAGE, st.binary(max_size=200))
def test_any_bytes_give_the_same_compiled(pattern: bytes, subject: bytes) -> None:
    try:
        alternatives = parse(pattern)
    except OSRegexError:
        return
    one, other = (form.RegexMatcher(pattern, alternatives) for form in PRESENT)
    assert (one.search(subject), one.capture(subject)) == (other.search(subject), other.capture(subject))


TEXTS = st.lists(st.binary(max_size=3) | st.text(alphabet="ab", max_size=2).map(str.encode), max_size=2)


@EITHER
@given(TEXTS, TEXTS, TEXTS, TEXTS, st.booleans(), st.text(alphabet="aAbB", max_size=5).map(str.encode))
def test_texts(
    form: Any,
    contained: list[bytes],
    prefixes: list[bytes],
    suffixes: list[bytes],
    equal: list[bytes],
    negated: bool,
    subject: bytes,
) -> None:
    text = subject.lower()
    expected = (
        any(one in text for one in contained)
        or text.startswith(tuple(prefixes))
        or text.endswith(tuple(suffixes))
        or text in equal
    )
    matcher = form.TextMatcher(contained, prefixes, suffixes, equal, negated=negated)
    assert matcher.test(subject) is (expected is not negated)
    assert matcher.test(bytes(bytearray(subject))) is (expected is not negated)


@given(PATTERNS, SUBJECTS)
def test_no_match_begins_before_the_first_start(pattern: bytes, subject: bytes) -> None:
    """The literals of a pattern only save time."""
    for one in map(Program, parse(pattern)):
        start = first_start(one, subject)
        for capture in (False, True):
            found = [_run(one, subject, at, capture) for at in (0, start) if at != UNSET]
            assert found[0] == (found[1] if start != UNSET else (NO_MATCH, None))


def _run(one: Program, subject: bytes, start: int, capture: bool) -> tuple[int, list[bytes] | None]:
    marks = [UNSET] * len(one.code) if capture else None
    end = end_index(one.code, one.begin, one.end, subject, start, marks)
    return end, None if end == NO_MATCH or marks is None else groups_between(one.marks, marks, subject)


@EITHER
def test_the_work_is_bounded(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four slots alone would try the fourth power of the length: 10,000 years."""
    if form is matchers:
        monkeypatch.setattr(matchers, "MAX_REPEATED", 10_000)
    pattern = rb"^(\w+)-(\w+)-(\w+)-(\w+)-(\d+)"
    matcher = form.RegexMatcher(pattern, parse(pattern))
    for search in (matcher.test, matcher.search, matcher.capture):
        with pytest.raises(MatchLimit, match=r"the pattern '\^.*' costs too much on this event"):
            search(b"-" * 60_000 + b" ")
    assert matcher.capture(b"a-b-c-d-1").groups == [b"a", b"b", b"c", b"d", b"1"]


@EITHER
def test_a_hostile_pattern_takes_few_steps(form: Any) -> None:
    """A backtracking engine would need exponential time."""
    pattern = rb"\w+\w+\w+\w+\w+\w+\w+\w+\w+!"
    assert form.RegexMatcher(pattern, parse(pattern)).search(b"a" * 5000) is None
    assert re.search(r"a+!", "a" * 100) is None


@EITHER
def test_a_subject_is_bytes(form: Any) -> None:
    matcher = form.RegexMatcher(b"a", parse(b"a"))
    for subject in ("a", None, [97]):
        with pytest.raises((TypeError, AttributeError)):
            matcher.search(subject)


LOGS_OF_A_PATTERN = 30
"""How many logs each pattern is tried on."""
ELEMENT = re.compile(rb"<(?:prematch|regex|field)\b([^>]*)>([^<]+)</")


def patterns_of_the_ruleset() -> set[bytes]:
    files = (REPOSITORY / "ruleset").glob("*/*.xml")
    found = (one for file in files for one in ELEMENT.findall(file.read_bytes()))
    return {text for attributes, text in found if b"type=" not in attributes}


@NOT_COMPILED
def test_the_ruleset_finds_the_same_compiled() -> None:
    """All its patterns, each on a share of the logs of its cases: whole, behind their headers, and cut off."""
    logs = {
        log for file in find_files((REPOSITORY / "tests/ruleset",)) for case in read_file(file) for log in case.logs
    }
    subjects = [part for log in sorted(logs) for part in (log, log[16:], log[:-20])]
    shares = len(subjects) // LOGS_OF_A_PATTERN
    for number, pattern in enumerate(sorted(patterns_of_the_ruleset())):
        one, other = (form.RegexMatcher(pattern, parse(pattern)) for form in PRESENT)
        for subject in subjects[number % shares :: shares]:
            assert one.capture(subject) == other.capture(subject)
            assert one.search(subject) == other.search(subject)
