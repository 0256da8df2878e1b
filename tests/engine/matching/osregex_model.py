"""A second OS_Regex, for tests: the published matcher line by line (ruleset.md 3.2), with no thought of speed.

The pattern is a text as the matcher knows it: an escape is two characters, of which the first is a backslash; both
parentheses are the mark, which is the byte ``(`` itself; behind the end there are only NULs.
"""

from typing import NamedTuple

ESC, MARK, NUL = "\\", "(", "\0"
_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-@_"


def in_class(byte: str, name: str) -> bool:
    match name:
        case "w":
            return byte in _WORD
        case "W":
            return byte not in _WORD
        case "d":
            return byte in "0123456789"
        case "D":
            return byte not in "0123456789"
        case "s":
            return byte == " "
        case "S":
            return byte != " "
        case "t":
            return byte == "\t"
        case "p":
            return byte in "!\"#$%&'()*+,-.:;<=>?[]{|}"
        case ".":
            return True
        case _:
            return byte == name


def lower(byte: str) -> str:
    return byte.lower() if byte.isascii() else byte


class Compiled(NamedTuple):
    text: str
    begin: bool
    end: bool
    marks: list[int]
    """Where parentheses are; a quoted one is none."""

    def at(self, place: int) -> str:
        return self.text[place] if place < len(self.text) else NUL


def compile_one(alternative: str) -> Compiled:
    begin = alternative.startswith("^")
    rest = alternative[1:] if begin else alternative
    text, marks, end = "", list[int](), False
    while rest:
        if rest[0] == ESC:
            text, rest = text + rest[:2], rest[2:]
            continue
        if rest == "$":
            end = True
        elif rest[0] in "()":
            marks.append(len(text))
            text += MARK
        else:
            text += lower(rest[0])
        rest = rest[1:]
    return Compiled(text, begin, end, marks)


def alternatives(pattern: str) -> list[Compiled]:
    """``pattern`` must be a valid one: the bars outside of parentheses and of escapes separate."""
    parts, at, inside = [""], 0, False
    while at < len(pattern):
        one = pattern[at : at + 2] if pattern[at] == ESC else pattern[at]
        inside = inside if len(one) > 1 or one not in "()" else one == "("
        if one == "|" and not inside:
            parts.append("")
        else:
            parts[-1] += one
        at += len(one)
    return [compile_one(one) for one in parts]


class Run:
    """One attempt of one alternative on a subject."""

    def __init__(self, pattern: Compiled, subject: str, *, capture: bool) -> None:
        self.pattern, self.subject, self.capture = pattern, subject, capture
        self.mark: dict[int, int] = {}
        self.seen = False

    def end_index(self) -> int | None:  # noqa: C901 - the published algorithm, in its order
        pattern, s = self.pattern, self.subject
        P, n = pattern.at, len(self.subject)
        end: int | None = 0
        i = p = 0
        restart: int | None = None
        slots: list[tuple[int, int] | None] = [None] * 4
        while i < n:
            if P(p) == NUL:
                if not pattern.end:
                    return end
            elif P(p) == MARK:
                self.mark[p] = i
                p += 1
                if P(p) == NUL and not pattern.end:
                    return end
            if P(p) == ESC:
                q = P(p + 2)
                if in_class(s[i], P(p + 1)):
                    if q not in ("+", "*"):
                        p += 2
                        restart = i if restart is None else restart
                        end = i
                        i += 1
                        continue
                    if q == "*":
                        self.seen = True
                    if self.seen:
                        x, skip = p + 3, None
                        if P(x) == MARK:
                            x += 1
                        if P(x) == NUL:
                            skip = 1
                        elif P(x) == ESC:
                            if in_class(s[i], P(x + 1)):
                                skip = 0 if P(x + 2) in ("+", "*") else 2
                        elif P(x) == lower(s[i]):
                            self.seen = False
                            skip = 1
                        if skip is not None:
                            if P(x - 1) == MARK:
                                self.mark[x - 1] = i + 1 if self.seen and skip == 1 else i
                            if P(x) == NUL:
                                i += 1
                                continue
                            x += skip
                            if None in slots:
                                slots[slots.index(None)] = (p, i)
                            p = x
                    else:
                        x = p + 3
                        if self.capture and P(x) == MARK:
                            self.mark[x] = i + 1 if i + 1 == n else i
                        self.seen = True
                    end = i
                    i += 1
                    continue
                if NUL in (P(p + 2), P(p + 3)) and self.seen and end is not None:
                    end = i
                    if not pattern.end:
                        return end
                elif q == "+" and self.seen:
                    p += 3
                    self.seen = False
                    continue
                elif q == "*":
                    p += 3
                    end = i - 1
                    self.seen = False
                    continue
                self.seen = False
            elif P(p) == lower(s[i]):
                p += 1
                restart = i if restart is None else restart
                end = i
                i += 1
                continue
            used = [number for number, one in enumerate(slots) if one is not None]
            if used:
                p, i = slots[used[-1]]  # type: ignore[misc]
                slots[used[-1]] = None
                i += 1
                continue
            if pattern.begin:
                return None
            if restart is not None:
                i, restart = restart, None
            p, end = 0, None
            i += 1
        return end if self._accepts(p) else None

    def _accepts(self, p: int) -> bool:  # noqa: C901 - as above
        P = self.pattern.at
        if self.capture:
            while P(p) == ESC and P(p + 2) == "*":
                p += 3
            if P(p) == MARK:
                self.mark[p] = len(self.subject)
        q = self._past_mark(p)
        if P(q) == NUL:
            return True
        if P(q) == ESC and self.seen:
            q += 2
            if P(q) in ("+", "*"):
                q = self._past_mark(q + 1)
                if P(q) == NUL:
                    return True
                if P(q) == ESC:
                    q += 2
                    if P(q) == "*":
                        q = self._past_mark(q + 1)
                        if P(q) == NUL:
                            return True
        if P(q) == ESC:
            q += 2
            if P(q) == "*":
                q = self._past_mark(q + 1)
                if P(q) == NUL:
                    return True
        return False

    def _past_mark(self, q: int) -> int:
        return q + 1 if self.pattern.at(q) == MARK else q


def model_search(pattern: bytes, subject: bytes) -> int | None:
    for one in alternatives(pattern.decode("latin-1")):
        found = Run(one, subject.decode("latin-1"), capture=False).end_index()
        if found is not None:
            return found
    return None


def model_capture(pattern: bytes, subject: bytes) -> tuple[int, list[bytes]] | None:
    text = subject.decode("latin-1")
    for one in alternatives(pattern.decode("latin-1")):
        run = Run(one, text, capture=True)
        end = run.end_index()
        if end is None:
            continue
        groups = list[bytes]()
        for opening, closing in zip(one.marks[::2], one.marks[1::2], strict=True):
            if opening not in run.mark or closing not in run.mark:
                break
            if run.mark[closing] < run.mark[opening]:
                return None
            groups.append(subject[run.mark[opening] : run.mark[closing]])
        return end, groups
    return None
