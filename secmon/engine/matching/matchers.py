"""The matchers of OS_Match and OS_Regex (ruleset.md 3.1, 3.2): the innermost loops of the analysis.

This source is used in two forms: as it is, and compiled by Cython with the C types of ``compiled_matchers.pxd``, which
is some fifty times faster (see ``implementation.py``). Therefore functions have one plain loop each, and -2 and -3
instead of None and an exception.

The matcher of OS_Regex follows the published algorithm step by step, because public decoders depend on its edge cases:
lazy repetition with four backtracking slots, and an end index that may be one behind the last byte matched. Most
subjects are rejected before it runs, by the literal text of the pattern.
"""

from collections.abc import Iterable

from secmon.engine.matching.osregex_code import ESC, LOWER, MARK, MEMBERS, NUL, PLUS, STAR, Alternative
from secmon.engine.matching.results import Found, MatchLimit

SLOTS = 4
"""Backtracking slots: positions to resume at when a match fails."""
MAX_REPEATED = 10_000_000
"""Bytes that one search may test again. Without a bound, four slots take time in the fourth power of the subject's
length. PCRE2 has the same bound on its steps."""
NO_MATCH, TOO_MANY = -2, -3
"""Instead of an end index, which may be -1."""
UNSET = -1

_last = (b"", b"")


def lowered(subject: bytes) -> bytes:
    """``subject`` in lower case. The last one is kept, because rules test the same log hundreds of times."""
    global _last
    last = _last  # of one assignment: other threads search, too
    if last[0] is not subject:
        last = _last = (subject, subject.lower())
    return last[1]


class TextMatcher:
    """Searches a subject for texts in lower case."""

    __slots__ = ("_contained", "_equal", "_negated", "_prefixes", "_suffixes")

    def __init__(
        self,
        contained: Iterable[bytes],
        prefixes: Iterable[bytes],
        suffixes: Iterable[bytes],
        equal: Iterable[bytes],
        *,
        negated: bool,
    ) -> None:
        """The texts are contained in the subject, at its start, at its end, or equal to it."""
        self._contained, self._prefixes, self._suffixes = tuple(contained), tuple(prefixes), tuple(suffixes)
        self._equal, self._negated = frozenset(equal), negated

    def test(self, subject: bytes) -> bool:
        """Whether one of the texts is found, or, if negated, none of them."""
        text = lowered(subject)
        for one in self._contained:
            if text.find(one) >= 0:
                return not self._negated
        for one in self._prefixes:
            if text.startswith(one):
                return not self._negated
        for one in self._suffixes:
            if text.endswith(one):
                return not self._negated
        return (text in self._equal) != self._negated


class Program:
    """An alternative as the matcher runs it."""

    __slots__ = ("begin", "code", "end", "marks", "prefix", "required")

    def __init__(self, one: Alternative) -> None:
        self.code, self.begin, self.end, self.prefix, self.required, self.marks = one


class RegexMatcher:
    """Searches a subject for the first of the alternatives that matches."""

    __slots__ = ("_pattern", "_programs")

    def __init__(self, pattern: bytes, alternatives: Iterable[Alternative]) -> None:
        """``pattern``: the text for messages."""
        self._pattern = pattern
        self._programs = tuple([Program(one) for one in alternatives])

    def test(self, subject: bytes) -> bool:
        """Whether it matches. Raises MatchLimit."""
        return self._end_index(subject) != NO_MATCH

    def search(self, subject: bytes) -> int | None:
        """The end index; None: no match. Raises MatchLimit.

        Where the subject ends within the pattern this is stricter than :meth:`capture`, as published.
        """
        end = self._end_index(subject)
        return None if end == NO_MATCH else end

    def capture(self, subject: bytes) -> Found | None:
        """End index and groups. Raises MatchLimit."""
        for one in self._programs:
            start = first_start(one, subject)
            if start >= 0:
                marks = [UNSET] * len(one.code)
                end = end_index(one.code, one.begin, one.end, subject, start, marks)
                if end == TOO_MANY:
                    raise MatchLimit(self._pattern, "too many bytes were tested again")
                if end != NO_MATCH:
                    groups = groups_between(one.marks, marks, subject)
                    return None if groups is None else Found(end, groups)
        return None

    def _end_index(self, subject: bytes) -> int:
        for one in self._programs:
            start = first_start(one, subject)
            if start >= 0:
                end = end_index(one.code, one.begin, one.end, subject, start, None)
                if end == TOO_MANY:
                    raise MatchLimit(self._pattern, "too many bytes were tested again")
                if end != NO_MATCH:
                    return end
        return NO_MATCH


def first_start(one: Program, subject: bytes) -> int:
    """The first index at which a match can begin, by the literals of the alternative; UNSET: there is none."""
    if not one.begin:
        text = lowered(subject)
        if one.required is not one.prefix and text.find(one.required) < 0:
            return UNSET
        return text.find(one.prefix) if one.prefix else 0
    if len(one.prefix) > len(subject):
        return UNSET
    for i in range(len(one.prefix)):
        if one.prefix[i] != LOWER[subject[i]]:
            return UNSET
    return 0


def groups_between(places: tuple[int, ...], marks: list[int], subject: bytes) -> list[bytes] | None:
    """The groups; None when one ends before it begins, which makes the whole test fail."""
    groups: list[bytes] = []
    for k in range(0, len(places), 2):
        start, stop = marks[places[k]], marks[places[k + 1]]
        if start == UNSET or stop == UNSET:
            break
        if stop < start:
            return None
        groups.append(subject[start:stop])
    return groups


def end_index(  # noqa: C901 - the published algorithm, in its order
    code: bytes, begin: bool, anchored: bool, subject: bytes, start: int, marks: list[int] | None
) -> int:
    """The end index of the match, or NO_MATCH, or TOO_MANY.

    ``anchored``: the match ends where the subject does. ``start``: no match begins before. ``marks`` receives the
    offsets of parentheses by their index in the code; None: nothing is captured, and the end of the subject is handled
    as in a test.

    State: ``i`` in the subject, ``p`` in the code. ``seen``: the repeated class at ``p`` has matched at least once (a
    ``*`` counts as seen). ``slots``: code and subject positions to resume at, of which ``used`` are. ``restart``: the
    first byte of the current attempt; when it fails without a slot, the next attempt begins behind it.
    """
    size, i, p, end, restart = len(subject), start, 0, NO_MATCH if start else 0, UNSET
    seen, slots, used, repeated = False, [0] * 8, 0, 0
    while i < size:
        byte = subject[i]
        if code[p] == MARK:
            if marks is not None:
                marks[p] = i
            p += 1
        item, many = code[p], code[p + 2]
        if item == NUL and not anchored:
            return end
        if item == ESC:
            if MEMBERS[code[p + 1] << 8 | byte]:
                if many in (PLUS, STAR):
                    x = p + 4 if code[p + 3] == MARK else p + 3  # what follows the repetition
                    if not seen and many == PLUS:
                        if marks is not None and code[x - 1] == MARK:
                            marks[x - 1] = i + 1 if i + 1 == size else i
                        seen = True
                    else:
                        # Lazy: once the next item matches too, leave the repetition, and keep a slot to resume it.
                        seen = True
                        behind = position_behind(code, x, byte)
                        if behind != NO_MATCH:
                            if marks is not None and code[x - 1] == MARK:
                                marks[x - 1] = i + 1 if code[x] == NUL else i
                            if code[x] == NUL:
                                i += 1
                                continue  # the end index stays behind
                            if used < SLOTS:
                                slots[2 * used] = p
                                slots[2 * used + 1] = i
                                used += 1
                            seen = code[x] == ESC
                            p = behind
                else:
                    p += 2
                    restart = i if restart == UNSET else restart
                end = i
                i += 1
                continue
            # The class does not match here.
            if seen and end != NO_MATCH and (many == NUL or code[p + 3] == NUL):
                end = i
                if not anchored:
                    return end  # the first byte that did not match
            elif many == STAR or (many == PLUS and seen):  # the repetition ends; test the next item on the same byte
                p += 3
                end = i - 1 if many == STAR else end
                seen = False
                continue
            seen = False
        elif item == LOWER[byte]:
            p += 1
            restart = i if restart == UNSET else restart
            end = i
            i += 1
            continue
        # No item matches this byte: resume a repetition, or begin a new attempt.
        if used:
            used -= 1
            p = slots[2 * used]
            repeated += i - slots[2 * used + 1]
            i = slots[2 * used + 1] + 1
        elif begin:
            return NO_MATCH
        else:
            if restart != UNSET:
                repeated += i - restart
                i = restart
                restart = UNSET
            p, end = 0, NO_MATCH
            i += 1
        if repeated > MAX_REPEATED:
            return TOO_MANY
    if marks is not None:
        p = close_group(code, p, size, marks)
    return end if may_end(code, p, seen) else NO_MATCH


def close_group(code: bytes, p: int, size: int, marks: list[int]) -> int:
    """The index in the code behind trailing ``*`` items, which match nothing, so that a group behind them can close."""
    while code[p] == ESC and code[p + 2] == STAR:
        p += 3
    if code[p] == MARK:
        marks[p] = size
    return p


def position_behind(code: bytes, x: int, byte: int) -> int:
    """Where the code goes on if the item at ``x`` matches too; NO_MATCH if not. The end always does, a class + or *
    stays the current one."""
    item = code[x]
    if item == NUL:
        return x
    if item != ESC:
        return x + 1 if item == LOWER[byte] else NO_MATCH
    if not MEMBERS[code[x + 1] << 8 | byte]:
        return NO_MATCH
    return x if code[x + 2] in (PLUS, STAR) else x + 2


def may_end(code: bytes, p: int, seen: bool) -> bool:
    """Whether the subject may end at index ``p`` of the code: the rest can match nothing."""
    q = behind_mark(code, p)
    if code[q] == NUL:
        return True
    if code[q] == ESC and seen:
        q += 2
        if code[q] in (PLUS, STAR):
            q = behind_mark(code, q + 1)
            if code[q] == NUL:
                return True
            if code[q] == ESC:
                q += 2
                if code[q] == STAR:
                    q = behind_mark(code, q + 1)
                    if code[q] == NUL:
                        return True
    return code[q] == ESC and code[q + 2] == STAR and code[behind_mark(code, q + 3)] == NUL


def behind_mark(code: bytes, q: int) -> int:
    return q + 1 if code[q] == MARK else q
