"""Literals of PCRE2 patterns, against the library."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.matching.expression import PatternError, compile_expression
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
        (rb"\x41bc\x3C", (b"abc<",)),
        (rb"\x4", None),
        (rb"[\x80-\xbf]+abc", (b"abc",)),
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
        b"\\d", b"\\b", b"\\1", b"\\Q", b"\\E", b"\\x61", b"[\\x61-c]", b".", b"^", b"$", b"#", b" ", b"\\",
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


@settings(max_examples=300)
@given(
    st.lists(PARTS, max_size=6).map(lambda parts: b"^" + b"".join(parts)),
    st.lists(st.sampled_from([b"a", b"B", b"c", b"x", b".", b"1", b"|"]), max_size=4).map(b"".join),
)
def test_every_match_begins_with_a_first_byte(pattern: bytes, subject: bytes) -> None:
    try:
        expression = compile_expression("pcre2", pattern)
    except PatternError:
        return
    if expression.first_bytes is not None and expression.test(subject):
        assert subject[:1].lower() in {bytes((one,)) for one in expression.first_bytes}
