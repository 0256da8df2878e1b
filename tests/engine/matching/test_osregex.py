"""OS_Regex against its published vectors (ruleset.md 3.2), and against all that a hostile ruleset may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.matching.osregex import OSRegex, OSRegexError
from tests.engine.matching.osregex_strategies import PATTERNS, SUBJECTS

VECTORS: list[tuple[str, str, int | None, list[str]]] = [
    (r"^user (\S+) ", "user bob from 1", 8, ["bob"]),
    (r"^user (\S+)", "user bob from 1", 5, ["bob"]),
    (r"^user \S+", "user bob from 1", 8, []),
    (r"^user \S+ ", "user bob from 1", 8, []),
    (r"^id=\d+", "id=55 x", 5, []),
    (r"^id=(\d+)", "id=55 x", 3, ["55"]),
    (r"^id=(\d+) ", "id=55 x", 5, ["55"]),
    (r"id=\d", "id=55", 3, []),
    (r"(\d+.\d+.\d+.\d+)", "ip 192.0.2.1 x", 11, ["192.0.2.1"]),
    (r"(\d+\.\d+)", "1x2", 2, ["1x2"]),
    ("a.c", "abc", None, []),
    ("a.c", "a.c", 2, []),
    (r"a\.c", "abc", 2, []),
    (r"(\.+) end", "one end two end", 6, ["one"]),
    (r"^(\.+) end$", "one end two end", 14, ["one end two"]),
    (r"(\S+)@(\S+)", "me@host1 x", 3, ["me", "host1"]),
    (r"\w+ \d+", "abc 12", 4, []),
    (r"(\.*)x", "abxcx", 2, ["ab"]),
    (r"a\d*b", "ab", 1, []),
    (r"a\d*b", "a12b", 3, []),
    (r"a\d+b", "ab", None, []),
    ("^abc|def$", "xxdef", 4, []),
    ("^abc|def$", "abcx", 2, []),
    ("^abc|def$", "xabc", None, []),
    (r"x(\d+)|y(\w+)", "yfoo", 1, ["foo"]),
    (r"(\d+) (\w+)|(\w+)", "zip", 0, ["zip"]),
    (r"\p+", "a-:b", 3, []),
    (r"\w", "-", 0, []),
    (r"\w", "@", 0, []),
    (r"\w", "_", 0, []),
    (r"\(\d+\)", "f(12)", 4, []),
    ("[a]", "[a]", 2, []),
    ("a+", "aaa", None, []),
    ("a+", "a+", 1, []),
    ("^$", "", 0, []),
    ("^$", "x", None, []),
    ("", "x", 0, []),
    ("x$", "ax", 1, []),
    ("x$", "axb", None, []),
    (r"(\w+)$", "a bc", 2, ["bc"]),
    (r"\w+$", "a bc", 2, []),
    (r"(\d+)-(\d+)-(\d+)", "2023-11-14", 8, ["2023", "11", "14"]),
    (r"(\S+):(\d+)", "h:1:22", 2, ["h", "1"]),
    (r'"(\.+)"', 'say "a b" and "c"', 8, ["a b"]),
    (r"^\s*(\w+)", "  ab", 2, ["ab"]),
    (r"^\s*(\w+)", "ab", 0, ["ab"]),
    (r"\d+\d", "123", 1, []),
    (r"(\d+)(\w+)", "12ab", None, []),
    (r"\S*$", "x =", None, []),
    ("$", "x", None, []),
    (r"(\S+)(\w*)$", "ab(", 2, ["ab"]),
    ("(a)(b)", "ab", None, []),
    ("(a)(b)", "a(b", 2, ["a"]),
]


@pytest.mark.parametrize(("pattern", "subject", "end", "groups"), VECTORS)
def test_vectors(pattern: str, subject: str, end: int | None, groups: list[str]) -> None:
    found = OSRegex(pattern.encode()).capture(subject.encode())
    assert found == (None if end is None else (end, [group.encode() for group in groups]))


@pytest.mark.parametrize("pattern", [r"\[", "(a|b)", "((a))", "(a", "a)", "\\", r"\n", "a" * 20481])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(OSRegexError):
        OSRegex(pattern.encode())


@given(PATTERNS, SUBJECTS)
def test_groups_lie_within_the_subject(pattern: bytes, subject: bytes) -> None:
    compiled = OSRegex(pattern)
    found = compiled.capture(subject)
    if found is None:
        return
    end, groups = found
    assert -1 <= end <= len(subject)
    assert all(group in subject for group in groups)
    assert len(groups) <= pattern.count(b"(")


@given(st.lists(st.sampled_from([b"a", b"B", b"1", b"=", b" "]), min_size=1, max_size=4).map(b"".join), SUBJECTS)
def test_plain_text_is_a_search_without_case(pattern: bytes, subject: bytes) -> None:
    assert (OSRegex(pattern).search(subject) is not None) == (pattern.lower() in subject.lower())
    assert (OSRegex(b"^" + pattern).search(subject) is not None) == subject.lower().startswith(pattern.lower())


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_pattern_or_an_error(pattern: bytes, subject: bytes) -> None:
    try:
        compiled = OSRegex(pattern)
    except OSRegexError:
        return
    compiled.capture(subject)


@given(PATTERNS, SUBJECTS)
def test_a_match_begins_with_one_of_the_first_bytes(pattern: bytes, subject: bytes) -> None:
    compiled = OSRegex(pattern)
    if compiled.first_bytes is not None and compiled.search(subject) is not None:
        assert subject.lower()[0] in compiled.first_bytes
