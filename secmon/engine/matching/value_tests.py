"""Tests of whole values, as kinds of expressions: addresses within networks (``cidr``) and numbers (``number``)."""

import operator
import re
from collections.abc import Callable

from secmon.engine.matching.addresses import address_test
from secmon.engine.matching.results import Found

_COMPARISON = re.compile(rb"\s*(lt|lte|gt|gte|eq)\s+([+-]?\d{1,30}(?:\.\d{1,30})?)\s*")
_NUMBER = re.compile(rb"[+-]?\d{1,30}(?:\.\d{1,30})?")
_OPERATORS = {
    b"lt": operator.lt,
    b"lte": operator.le,
    b"gt": operator.gt,
    b"gte": operator.ge,
    b"eq": operator.eq,
}


class _WholeValue:
    """A match is one of the whole value; no index knows anything of it."""

    __slots__ = ("test",)
    literals = first_bytes = None
    test: Callable[[bytes], bool]

    def search(self, subject: bytes) -> int | None:
        return len(subject) - 1 if self.test(subject) else None

    def capture(self, subject: bytes) -> Found | None:
        return Found(len(subject) - 1, []) if self.test(subject) else None


class Networks(_WholeValue):
    """Addresses and networks, separated by commas. A text that is no address never matches."""

    __slots__ = ()

    def __init__(self, pattern: bytes) -> None:
        """Raises ValueError."""
        self.test = address_test(pattern.decode("ascii", "replace").split(","))


class Comparison(_WholeValue):
    """``lt``, ``lte``, ``gt``, ``gte`` or ``eq``, and a decimal number. A text that is no such number never matches."""

    __slots__ = ()

    def __init__(self, pattern: bytes) -> None:
        """Raises ValueError."""
        found = _COMPARISON.fullmatch(pattern)
        if found is None:
            raise ValueError("it is not lt, lte, gt, gte or eq and a number")
        compare, bound = _OPERATORS[found[1]], _number(found[2])

        def test(subject: bytes) -> bool:
            return _NUMBER.fullmatch(subject) is not None and bool(compare(_number(subject), bound))

        self.test = test


def _number(text: bytes) -> int | float:
    return float(text) if b"." in text else int(text)
