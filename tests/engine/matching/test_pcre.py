"""PCRE2: groups as the engine counts them, and a bound on time (ruleset.md 3.3)."""

import pytest

from secmon.engine.matching import MatchLimit, PatternError, compile_expression


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        (rb"u=(\w+)?(b)?\s*p=(\d+)(x)?", b"zz u= p=80", (9, [b"", b"", b"80"])),
        (rb"^(?i)pcx:", b"PCX: 1", (3, [])),
        (rb"^", b"abc", (-1, [])),
        (rb"A", b"abc", None),
        (rb"a.c", b"a\nc", None),
        (rb"\xff", b"\xff", (0, [])),
    ],
)
def test_captures(pattern: bytes, subject: bytes, expected: tuple[int, list[bytes]] | None) -> None:
    assert compile_expression("pcre2", pattern).capture(subject) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"^abc", b"a"),
        (rb"^(?i)Abc", b"a"),
        (rb"^a?b", None),
        (rb"^a|b", None),
        (rb"abc", None),
        (rb"^\d", b"0123456789"),
        (rb"^\d{4}-\d\d (?:a|b)", b"0123456789"),
        (rb"^\d{0,4}-", None),
        (rb"^\d+?-", b"0123456789"),
        (rb"^\w{3} [ |]", b"0123456789_abcdefghijklmnopqrstuvwxyz"),
        (rb"^\[a", b"["),
        (rb"^\s", None),
        (rb"^a(?#|)", None),
        (rb"^a\Q(\E|b\Q)\E", None),
    ],
)
def test_first_bytes(pattern: bytes, expected: bytes | None) -> None:
    assert compile_expression("pcre2", pattern).first_bytes == (None if expected is None else frozenset(expected))


def test_what_is_no_pattern() -> None:
    with pytest.raises(PatternError, match="parenthesis"):
        compile_expression("pcre2", b"(a")


def test_a_hostile_pattern_gives_up() -> None:
    pattern = compile_expression("pcre2", rb"(a+)+$")
    for ask in (pattern.test, pattern.search, pattern.capture):
        with pytest.raises(MatchLimit, match=r"the pattern '\(a\+\)\+\$' costs too much"):
            ask(b"a" * 60 + b"b")


def test_the_stack_of_compiled_code_is_no_limit() -> None:
    pattern = compile_expression("pcre2", rb"sleep(?:\s|\+|%20)*(\()")
    assert pattern.capture(b"sleep" + b" " * 60_000 + b"(") == (60_005, [b"("])
    assert not pattern.test(b"sleep" + b" " * 60_000)
