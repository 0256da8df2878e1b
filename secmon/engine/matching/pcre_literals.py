"""Texts that every match of a PCRE2 pattern contains, for an index (ruleset.md 3.3).

Reads the common part of the syntax. Of a pattern with anything else nothing is known.
"""

import re
from collections.abc import Sequence

MAX_LITERALS = 64
"""Literals of one pattern; of more, nothing is known."""
_MAX_DEPTH = 20
_FLAGS = re.compile(rb"\?[imsJU]*(?:-[imsJU]+)?\)")
_PLAIN_GROUP = re.compile(rb"\?(?:[imsJU]*:|>|P?<[A-Za-z_]\w*>|'[A-Za-z_]\w*')|(?![?*])")
_LOOKAROUND = re.compile(rb"\?<?[=!]")
_QUANTIFIER = re.compile(rb"(?:([+])|[?*]|\{ *\d* *,? *\d* *\})[+?]?")
_CLASS = re.compile(
    rb"\[\^?\]?(?:[^\]\\\[]|\[:\^?[a-z]+:\]|\[(?![:.=])|\\[^QEcNPpXxogk]|\\x[0-9A-Fa-f]{2})*\]", re.DOTALL
)
_HEX = re.compile(rb"x([0-9A-Fa-f]{2})")
_CLASS_ESCAPES = frozenset(b"dDwWsSbBAzZhHvVntrR")

Literals = tuple[bytes, ...]


class _Unknown(Exception):
    """The pattern has a part that is not read here."""


def literals_of(pattern: bytes) -> Literals | None:
    """Texts in lower case, one of which every match contains; None when none is known."""
    reader = _Reader(pattern)
    try:
        found = reader.alternatives(0)
        return found if reader.at == len(pattern) else None
    except _Unknown:
        return None


def is_one_alternative(pattern: bytes) -> bool:
    """Whether the whole pattern is one alternative; False also where that is not known."""
    reader = _Reader(pattern)
    try:
        reader.sequence(0)
    except _Unknown:
        return False
    return reader.at == len(pattern)


class _Reader:
    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self.at = 0

    def alternatives(self, depth: int) -> Literals | None:
        """Up to the end of the pattern or of the group: one of the literals of each alternative."""
        if depth > _MAX_DEPTH:
            raise _Unknown
        parts = [self.sequence(depth)]
        while self._pattern[self.at : self.at + 1] == b"|":
            self.at += 1
            parts.append(self.sequence(depth))
        joined = [literal for part in parts if part is not None for literal in part]
        return tuple(joined) if None not in parts and len(joined) <= MAX_LITERALS else None

    def sequence(self, depth: int) -> Literals | None:
        """The most selective literals of one alternative."""
        found: list[Literals] = []
        run = bytearray()

        def end_run() -> None:
            if run:
                found.append((bytes(run).lower(),))
                run.clear()

        while self.at < len(self._pattern) and self._pattern[self.at] not in b"|)":
            one = self._one(depth)
            quantifier = _QUANTIFIER.match(self._pattern, self.at)
            if quantifier:
                self.at = quantifier.end()
                if _QUANTIFIER.match(self._pattern, self.at):
                    raise _Unknown
            if isinstance(one, int) and (not quantifier or quantifier[1]):
                run.append(one)
            else:
                end_run()
                if isinstance(one, tuple) and (not quantifier or quantifier[1]):
                    found.append(one)
            if quantifier:
                end_run()
        end_run()
        return max(found, key=_selectivity, default=None)

    def _one(self, depth: int) -> int | Literals | None:
        """The next element: a byte, the literals of a group, or None for anything else."""
        pattern, byte = self._pattern, self._pattern[self.at]
        if byte == ord("("):
            return self._group(depth)
        if byte == ord("["):
            found = _CLASS.match(pattern, self.at)
            if found is None:
                raise _Unknown
            self.at = found.end()
            return None
        self.at += 1
        if byte == ord("\\"):
            return self._escaped()
        return None if byte in b".^$" else byte

    def _escaped(self) -> int | None:
        if self.at == len(self._pattern):
            raise _Unknown
        if code := _HEX.match(self._pattern, self.at):
            self.at = code.end()
            return int(code[1], 16)
        byte = self._pattern[self.at]
        self.at += 1
        if byte in _CLASS_ESCAPES:
            return None
        if byte >= 0x80 or chr(byte).isalnum():
            raise _Unknown
        return byte

    def _group(self, depth: int) -> Literals | None:
        self.at += 1
        flags = _FLAGS.match(self._pattern, self.at)
        if flags:
            self.at = flags.end()
            return None
        plain = _PLAIN_GROUP.match(self._pattern, self.at)
        start = plain or _LOOKAROUND.match(self._pattern, self.at)
        if start is None:
            raise _Unknown
        self.at = start.end()
        found = self.alternatives(depth + 1)
        if self._pattern[self.at : self.at + 1] != b")":
            raise _Unknown
        self.at += 1
        return found if plain else None


def _selectivity(literals: Sequence[bytes]) -> int:
    return min(map(len, literals))
