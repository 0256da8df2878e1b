"""Regular expressions of rules: the dialect, and that nothing backtracks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.security.rbac.context_rules import evaluate
from secmon.security.rbac.patterns import MAX_PATTERN, UnsupportedPattern, parse_pattern


@pytest.mark.parametrize("text", ["", "r", "r'", "r''x", "'a'", "R'a'", 'r"a"', "r'^[0-9]*'$", " r'a'", "r'a' "])
def test_plain_text(text: str) -> None:
    assert parse_pattern(text) is None


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("", "", True),
        ("", "x", True),
        ("adm", "admin", True),  # anchored at the start only
        ("min", "admin", False),
        ("^adm$", "admin", False),
        ("it's", "it's", True),
        (r"\w+\Z", "abc", True),
        (r"ab\Z", "abc", False),
        (r"caf\u00e9$", "café", True),
        (r"\U0001f600$", "😀", True),
        (r"\\Z", r"\Z", True),
        (r"[é]+$", "éé", True),
        (r"(?i)ADM$", "adm", True),
        (r"(?P<x>a)b", "ab", True),
        (r".", "\n", False),
        (r"(?s).", "\n", True),
        ("a", "\ud800", False),
    ],
)
def test_dialect(pattern: str, text: str, holds: bool) -> None:
    found = parse_pattern(f"r'{pattern}'")
    assert found is not None
    assert found.matches(text) is holds


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*", "a{2,1}", "\\", "[b-a]", "\ud800"])
def test_invalid_expressions_are_plain_text(pattern: str) -> None:
    text = f"r'{pattern}'"
    assert parse_pattern(text) is None
    assert evaluate({"MATCH": {"k": text}}, {"k": text}) is True
    assert evaluate({"MATCH": {"k": text}}, {"k": pattern}) is False
    assert evaluate({"MATCH": {text: "v"}}, {text: "v"}) is True


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<x>a)(?P=x)", "(a)?(?(1)b|c)", "(?>a)", "a++", "(?x) a",
        "a{2000}", "((a{100}){100}){100}", r"\pL" * 300, "a" * (MAX_PATTERN + 1),
    ],
    ids=lambda pattern: pattern[:24],
)  # fmt: skip
def test_unbounded_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        parse_pattern(f"r'{pattern}'")


CATASTROPHIC = [r"(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){25}$", r"([a-z]+)*\d$", r"^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_patterns_run_on_the_linear_engine(pattern: str) -> None:
    """A backtracking engine would not come back from this within the life of the host."""
    found = parse_pattern(f"r'{pattern}'")
    assert found is not None
    assert type(found._engine).__module__ == "re2"
    assert found.matches("a" * 50_000 + "!") is False
    assert evaluate({"FIND": {"k": f"r'{pattern}'"}}, {"k": "a" * 50_000 + "!"}) is False


def test_the_cost_grows_with_text_and_pattern() -> None:
    small, large = parse_pattern("r'a'"), parse_pattern("r'(x{30}){30}'")
    assert small is not None
    assert large is not None
    assert small.cost("abc") == 1
    assert small.cost("a" * 10**6) == 1 + 10**6 * small.size // 1000
    assert large.cost("a" * 1000) == 1 + large.size


_pieces = st.sampled_from(["a", "b", ".", "a*", "b+", "(a|b)", "[ab]", "[^a]", "a?", "(ab)*", "b{1,2}", "^", "$"])


@given(pattern=st.lists(_pieces, max_size=6).map("".join), text=st.text("abc", max_size=6))
def test_same_answer_as_pythons_engine(pattern: str, text: str) -> None:
    found = parse_pattern(f"r'{pattern}'")
    if found is not None:  # repeated anchors are refused by one engine or the other
        assert found.matches(text) is (re.match(pattern, text) is not None)


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_crashes(pattern: str, text: str) -> None:
    try:
        found = parse_pattern(f"r'{pattern}'")
    except UnsupportedPattern:
        return
    if found is not None:
        assert found.matches(text) in (True, False)
