"""OS_Match against its published vectors (ruleset.md 3.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.matching.osmatch import OSMatch, search_word

VECTORS = [
    ("err", "an ERROR", True),
    ("^err", "an error", False),
    ("or$", "error", True),
    ("^error$", "ERROR", True),
    ("!a|b", "xxb", False),
    ("!a|b", "xxc", True),
    ("", "x", True),
    ("a|", "zzz", True),
    ("a.b", "axb", False),
    (r"a\.b", "a.b", False),
    (r"a\|b", "a", False),
    ("!", "x", False),
    ("a|!b", "b", False),
    ("^a|b$", "cab", True),
    ("^", "x", True),
    ("$", "x", True),
    ("^$", "", True),
    ("^$", "x", False),
]


@pytest.mark.parametrize(("pattern", "subject", "expected"), VECTORS)
def test_vectors(pattern: str, subject: str, expected: bool) -> None:
    assert OSMatch(pattern.encode()).test(subject.encode()) is expected


TEXTS = st.text(alphabet="aAb^$|!", max_size=12).map(str.encode)


@given(TEXTS, TEXTS)
def test_what_matches_holds_one_of_the_literals(pattern: bytes, subject: bytes) -> None:
    compiled = OSMatch(pattern)
    literals = compiled.literals
    if literals is not None and compiled.test(subject):
        assert any(one in subject.lower() for one in literals)


@given(TEXTS, TEXTS)
def test_negation_turns_the_result_around(pattern: bytes, subject: bytes) -> None:
    plain = pattern.lstrip(b"!")
    assert OSMatch(b"!" + plain).test(subject) is not OSMatch(plain).test(subject)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("web", "a,Web_x,", True),
        ("^web", "a,web,", False),
        ("^a|z", "a,web,", True),
        ("", "a", False),
        ("web$", "web", False),
    ],
)
def test_words(pattern: str, text: str, expected: bool) -> None:
    assert search_word(pattern.encode(), text.encode()) is expected
