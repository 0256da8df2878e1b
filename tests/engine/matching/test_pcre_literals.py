"""Literals of PCRE2 patterns, against the library."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.matching.expression import PatternError, compile_expression
from secmon.engine.matching.pattern_index import PatternIndex, Requirement
from secmon.engine.matching.pcre_literals import literals_of


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"^sshd(?:-session|-auth)?$", (b"sshd",)),
        (rb"(?i)\\PowerShell\.exe", (b"\\powershell.exe",)),
        (rb"(?:net|cmd)1?\.(?:exe|scr|com)x", (b"net", b"cmd")),
        (rb"(whoami|systeminfo)+ /all", (b"whoami", b"systeminfo")),
        (rb"user .* port \d+", (b" port ",)),
        (rb"Failed|Invalid user", (b"failed", b"invalid user")),
        (rb"colou?r", (b"colo",)),
        (rb"ab{2}c", (b"a",)),
        (rb"ab+cde", (b"cde",)),
        (rb"a++bc", (b"bc",)),
        (rb"a++?bc", None),
        (rb"[]x]abc[^]y]", (b"abc",)),
        (rb"[[:alpha:]]+=(?<value>\w+)", (b"=",)),
        (rb"abc|\d+", None),
        (rb"(?!abc)", None),
        (rb"(?x) a b c", None),
        (rb"(*ACCEPT)abc", None),
        (rb"(?#(abc", None),
        (rb"\Qabc|def\E", None),
        (rb"\x41bc", None),
        (rb"", None),
        (rb"(abc", None),
    ],
)
def test_literals(pattern: bytes, expected: tuple[bytes, ...] | None) -> None:
    assert literals_of(pattern) == expected


PARTS = st.sampled_from(
    [
        b"a", b"B", b"c", b"ab", b"|", b"(", b"(?:", b"(?i)", b"(?i:", b"(?=", b"(?!", b"(?<n>", b"(?|", b"(?x)", b"(?>", b")",
        b"*", b"+", b"?", b"+?", b"{2}", b"{0,1}", b"{,2}", b"{", b"}", b"[ab]", b"[^a]", b"[]b]", b"[[:alpha:]", b"]", b"\\.",
        b"\\d", b"\\b", b"\\1", b"\\Q", b"\\E", b"\\x61", b".", b"^", b"$", b"#", b" ", b"\\",
    ]
)  # fmt: skip


@settings(max_examples=600)
@given(
    st.lists(PARTS, max_size=10).map(b"".join),
    st.lists(st.sampled_from([b"a", b"b", b"B", b"c", b"x", b".", b" ", b"#", b"1", b"{2}"]), max_size=8).map(b"".join),
)
def test_every_match_has_a_literal(pattern: bytes, subject: bytes) -> None:
    try:
        expression = compile_expression("pcre2", pattern)
    except PatternError:
        return
    literals = literals_of(pattern)
    if literals is not None and expression.test(subject):
        assert any(one in subject.lower() for one in literals)


LITERALS = st.lists(st.text("abc", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=3).map(tuple)
REQUIREMENTS = st.builds(
    Requirement, st.none() | LITERALS, st.none() | st.frozensets(st.sampled_from(b"abc"), min_size=1)
)


@given(st.lists(REQUIREMENTS, max_size=8), st.text("abc", max_size=12).map(str.encode))
def test_an_index_leaves_out_no_pattern_that_can_match(requirements: list[Requirement], text: bytes) -> None:
    index = PatternIndex((1 << at, one) for at, one in enumerate(requirements))
    found = index.possible(text)
    for at, (literals, first_bytes) in enumerate(requirements):
        possible = (literals is None or any(one in text for one in literals)) and (
            first_bytes is None or text[:1] in (bytes((one,)) for one in first_bytes)
        )
        assert found >> at & 1 or not possible
        if literals is not None and min(map(len, literals)) >= 3:
            assert (found >> at & 1) == possible
