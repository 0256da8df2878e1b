"""OS_Regex: the ruleset's own small regular expressions (ruleset.md 3.2): their syntax, and the search by a matcher."""

from secmon.engine.matching.implementation import RegexMatcher
from secmon.engine.matching.osmatch import MAX_PATTERN
from secmon.engine.matching.osregex_code import CLASS_NUMBERS, ESC, LOWER, MARK, NUL, PLUS, STAR, Alternative


class OSRegexError(ValueError):
    """The text is not a pattern of this language; the message says why."""


class OSRegex:
    """A compiled OS_Regex expression. Its searches are those of RegexMatcher."""

    __slots__ = ("capture", "first_bytes", "literals", "search", "test")

    def __init__(self, pattern: bytes) -> None:
        """Raises OSRegexError."""
        alternatives = parse(pattern)
        matcher = RegexMatcher(pattern, alternatives)
        self.test, self.search, self.capture = matcher.test, matcher.search, matcher.capture
        self.first_bytes = _first_bytes(alternatives)
        self.literals = tuple(one.required for one in alternatives)


def parse(pattern: bytes) -> list[Alternative]:
    """The alternatives of ``pattern``. Raises OSRegexError."""
    if len(pattern) > MAX_PATTERN:
        raise OSRegexError(f"it is longer than {MAX_PATTERN} bytes")
    return [_encode(one) for one in _split(pattern)]


def _first_bytes(alternatives: list[Alternative]) -> frozenset[int] | None:
    """The possible first bytes of a match, in lower case; None when it can be any."""
    if not all(one.begin and one.prefix for one in alternatives):
        return None
    return frozenset(one.prefix[0] for one in alternatives)


def _split(pattern: bytes) -> list[bytes]:
    """The alternatives. Raises OSRegexError for unbalanced or nested parentheses and unknown escapes."""
    parts, start, depth, i = [], 0, 0, 0
    while i < len(pattern):
        byte = pattern[i]
        if byte == ord("\\"):
            if i + 1 == len(pattern) or pattern[i + 1] not in CLASS_NUMBERS:
                raise OSRegexError(f"{pattern[i : i + 2].decode('latin-1')!r} is not an escape of this language")
            i += 2
            continue
        if byte == ord("("):
            depth += 1
        elif byte == ord(")"):
            depth -= 1
        elif byte == ord("|"):
            if depth:
                raise OSRegexError("an alternative is inside parentheses")
            parts.append(pattern[start:i])
            start = i + 1
        if depth not in (0, 1):
            raise OSRegexError("parentheses are nested or not balanced")
        i += 1
    if depth:
        raise OSRegexError("a parenthesis is not closed")
    return [*parts, pattern[start:]]


def _encode(text: bytes) -> Alternative:
    begin = text.startswith(b"^")
    code = bytearray()
    marks: list[int] = []
    end, i = False, int(begin)
    while i < len(text):
        byte = text[i]
        if byte == ord("\\"):
            code += bytes((ESC, CLASS_NUMBERS[text[i + 1]]))
            i += 2
            continue
        if byte == ord("$") and i + 1 == len(text):
            end = True
        elif byte in b"()":
            marks.append(len(code))
            code.append(MARK)
        else:
            code.append(LOWER[byte])
        i += 1
    runs = _literals(bytes(code))
    prefix = runs[0][1] if runs and runs[0][0] == 0 else b""
    required = max((run for _, run in runs), key=len, default=b"")
    return Alternative(bytes((*code, NUL, NUL, NUL, NUL)), begin, end, prefix, required, tuple(marks))


def _literals(code: bytes) -> list[tuple[int, bytes]]:
    """Runs of literal bytes with their indexes. Single parentheses do not interrupt a run; adjacent ones do.

    The last byte of a pattern is not part of a run: after a class the matcher may skip it.
    """
    runs: list[tuple[int, bytes]] = []
    run, start, i = bytearray(), 0, 0
    while i < len(code):
        if code[i] == ESC or code[i : i + 2] == bytes((MARK, MARK)):
            if run:
                runs.append((start, bytes(run)))
                run = bytearray()
            i += 3 if i + 2 < len(code) and code[i + 2] in (PLUS, STAR) else 2
            continue
        if code[i] != MARK and i + 1 < len(code):
            start = start if run else i
            run.append(code[i])
        i += 1
    if run:
        runs.append((start, bytes(run)))
    return runs
