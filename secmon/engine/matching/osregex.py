"""OS_Regex: the ruleset's own small regular expressions (ruleset.md 3.2).

The matcher follows the published algorithm step by step, because public decoders depend on its edge cases: lazy
repetition with four backtracking slots, and an end index that may be one behind the last byte matched. Most subjects
are rejected before it runs, by the literal text of the pattern.
"""

from dataclasses import dataclass

from secmon.engine.matching.osmatch import MAX_PATTERN

SLOTS = 4
"""Backtracking slots: positions to resume at when a match fails."""

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = b"0123456789"
_EVERY = frozenset(range(256))
_WORD = frozenset(_LETTERS + _DIGITS + b"-@_")
_CLASSES: dict[int, frozenset[int]] = {
    ord("w"): _WORD,
    ord("d"): frozenset(_DIGITS),
    ord("s"): frozenset(b" "),
    ord("t"): frozenset(b"\t"),
    ord("p"): frozenset(b"!\"#$%&'()*+,-.:;<=>?[]{|}"),
    ord("W"): _EVERY - _WORD,
    ord("D"): _EVERY - frozenset(_DIGITS),
    ord("S"): _EVERY - frozenset(b" "),
    ord("."): _EVERY,
} | {literal: frozenset((literal,)) for literal in b"()\\$|<"}

ESC, NUL = 256, 257
"""In compiled code, besides bytes: a class follows; the end."""
MARK = ord("(")
"""In compiled code: an opening or closing parenthesis. A literal one is an escape, so the byte is free; but where two
marks are adjacent, the matcher compares the second one with the subject as this byte, and may match it."""
PLUS, STAR = ord("+"), ord("*")


class OSRegexError(ValueError):
    """The text is not a pattern of this language; the message says why."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative: its bytes as compiled, and its anchors."""

    code: tuple[int, ...]
    begin: bool
    end: bool
    prefix: bytes
    """The literal start of every match, in lower case."""
    required: bytes
    """The longest literal of every match, in lower case."""
    marks: tuple[int, ...]
    """Indexes of parentheses in the code."""

    def possible(self, text: bytes) -> bool:
        """Whether the matcher can find anything in ``text``, in lower case."""
        return text.startswith(self.prefix) if self.begin else self.required in text


class OSRegex:
    """A compiled OS_Regex expression."""

    __slots__ = ("_alternatives", "groups")

    def __init__(self, pattern: bytes) -> None:
        """Raises OSRegexError."""
        if len(pattern) > MAX_PATTERN:
            raise OSRegexError(f"it is longer than {MAX_PATTERN} bytes")
        self._alternatives = [_compile(one) for one in _split(pattern)]
        self.groups = max(len(one.marks) // 2 for one in self._alternatives)

    @property
    def first_bytes(self) -> frozenset[int] | None:
        """The possible first bytes of a match, in lower case; None when it can be any."""
        if not all(one.begin and one.prefix for one in self._alternatives):
            return None
        return frozenset(one.prefix[0] for one in self._alternatives)

    @property
    def alternatives(self) -> list[Alternative]:
        return self._alternatives

    def search(self, subject: bytes) -> int | None:
        """The end index of the first alternative that matches; None when none does.

        Where the subject ends within the pattern this is stricter than :meth:`capture`, as published.
        """
        text = subject.lower()
        for one in self._alternatives:
            if one.possible(text):
                found = run_alternative(one, subject, text, None)
                if found is not None:
                    return found
        return None

    def capture(self, subject: bytes) -> tuple[int, list[bytes]] | None:
        """End index and groups of the first alternative that matches."""
        text = subject.lower()
        for one in self._alternatives:
            if not one.possible(text):
                continue
            marks: dict[int, int] = {}
            found = run_alternative(one, subject, text, marks)
            if found is not None:
                groups = _pairs(one, subject, marks)
                return None if groups is None else (found, groups)
        return None


def _split(pattern: bytes) -> list[bytes]:
    """The alternatives. Raises OSRegexError for unbalanced or nested parentheses and unknown escapes."""
    parts, start, depth, i = [], 0, 0, 0
    while i < len(pattern):
        byte = pattern[i]
        if byte == ord("\\"):
            if i + 1 == len(pattern) or pattern[i + 1] not in _CLASSES:
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


def _compile(text: bytes) -> Alternative:
    begin = text.startswith(b"^")
    code: list[int] = []
    marks: list[int] = []
    end, i = False, int(begin)
    while i < len(text):
        byte = text[i]
        if byte == ord("\\"):
            code += (ESC, text[i + 1])
            i += 2
            continue
        if byte == ord("$") and i + 1 == len(text):
            end = True
        elif byte in b"()":
            marks.append(len(code))
            code.append(MARK)
        else:
            code.append(_lower(byte))
        i += 1
    runs = _literals(code)
    prefix = runs[0][1] if runs and runs[0][0] == 0 else b""
    required = max((run for _, run in runs), key=len, default=b"")
    return Alternative((*code, NUL, NUL, NUL, NUL), begin, end, prefix, required, tuple(marks))


def _literals(code: list[int]) -> list[tuple[int, bytes]]:
    """Runs of literal bytes with their indexes. Single parentheses do not interrupt a run; adjacent ones do.

    The last byte of a pattern is not part of a run: after a class the matcher may skip it.
    """
    runs: list[tuple[int, bytes]] = []
    run, start, i = bytearray(), 0, 0
    while i < len(code):
        if code[i] == ESC or code[i : i + 2] == [MARK, MARK]:
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


def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


def _pairs(one: Alternative, subject: bytes, marks: dict[int, int]) -> list[bytes] | None:
    """The groups; None when one ends before it begins, which makes the whole test fail."""
    groups: list[bytes] = []
    for opening, closing in zip(one.marks[::2], one.marks[1::2], strict=True):
        if opening not in marks or closing not in marks:
            break
        start, stop = marks[opening], marks[closing]
        if stop < start:
            return None
        groups.append(subject[start:stop])
    return groups


def run_alternative(  # noqa: C901 - the published algorithm, in its order
    one: Alternative, subject: bytes, text: bytes, captured: dict[int, int] | None
) -> int | None:
    """The end index of the match, or None.

    ``text`` is the subject in lower case. ``captured`` receives the offsets of parentheses by their index in the code;
    None: nothing is captured, and the end of the subject is handled as in a test.

    State: ``i`` in the subject, ``p`` in the code. ``seen``: the repeated class at ``p`` has matched at least once (a
    ``*`` counts as seen). ``slots``: code and subject positions to resume at. ``restart``: the first byte of the
    current attempt; when it fails without a slot, the next attempt begins behind it.
    """
    code, size = one.code, len(subject)
    capture, marks = captured is not None, {} if captured is None else captured
    end: int | None = 0
    seen, i, p = False, 0, 0
    restart: int | None = None
    slots: list[tuple[int, int]] = []
    while i < size:
        item = code[p]
        if item == NUL:
            if not one.end:
                return end
        elif item == MARK:
            marks[p] = i
            p += 1
            item = code[p]
            if item == NUL and not one.end:
                return end
        if item == ESC:
            many = code[p + 2]
            byte = subject[i]
            if byte in _CLASSES[code[p + 1]]:
                if many not in (PLUS, STAR):
                    p += 2
                    restart = i if restart is None else restart
                    end = i
                    i += 1
                    continue
                if many == STAR:
                    seen = True
                x = p + 3  # what follows the repetition
                if seen:
                    # Lazy: as soon as the next item matches too, leave the repetition, and keep a slot to resume it.
                    if code[x] == MARK:
                        x += 1
                    skip = -1
                    if code[x] == NUL:
                        skip = 1
                    elif code[x] == ESC:
                        if byte in _CLASSES[code[x + 1]]:
                            skip = 0 if code[x + 2] in (PLUS, STAR) else 2
                    elif code[x] == text[i]:
                        seen, skip = False, 1
                    if skip >= 0:
                        if code[x - 1] == MARK:
                            marks[x - 1] = i + 1 if seen and skip == 1 else i
                        if code[x] == NUL:
                            i += 1
                            continue  # the end index stays behind
                        if len(slots) < SLOTS:
                            slots.append((p, i))
                        p = x + skip
                else:
                    if capture and code[x] == MARK:
                        marks[x] = i + 1 if i + 1 == size else i
                    seen = True
                end = i
                i += 1
                continue
            # The class does not match here.
            if NUL in (many, code[p + 3]) and seen and end is not None:
                end = i
                if not one.end:
                    return end  # the first byte that did not match
            elif many == PLUS and seen:  # the repetition ends; test the next item on the same byte
                p += 3
                seen = False
                continue
            elif many == STAR:
                p += 3
                end = i - 1
                seen = False
                continue
            seen = False
        elif item == text[i]:
            p += 1
            restart = i if restart is None else restart
            end = i
            i += 1
            continue
        # No item matches this byte: resume a repetition, or begin a new attempt.
        if slots:
            p, i = slots.pop()
            i += 1
            continue
        if one.begin:
            return None
        if restart is not None:
            i, restart = restart, None
        p, end = 0, None
        i += 1
    if capture:  # the subject ended: trailing ``*`` items match nothing, so that a group behind them can close
        while code[p] == ESC and code[p + 2] == STAR:
            p += 3
        if code[p] == MARK:
            marks[p] = size
    return end if _accepts(code, p, seen) else None


def _accepts(code: tuple[int, ...], p: int, seen: bool) -> bool:
    """Whether the subject may end at index ``p`` of the pattern: the rest can match nothing."""
    q = p + (code[p] == MARK)
    if code[q] == NUL:
        return True
    if code[q] == ESC and seen:
        q += 2
        if code[q] in (PLUS, STAR):
            q += 1
            q += code[q] == MARK
            if code[q] == NUL:
                return True
            if code[q] == ESC:
                q += 2
                if code[q] == STAR:
                    q += 1
                    q += code[q] == MARK
                    if code[q] == NUL:
                        return True
    if code[q] == ESC:
        q += 2
        if code[q] == STAR:
            q += 1
            q += code[q] == MARK
            if code[q] == NUL:
                return True
    return False
