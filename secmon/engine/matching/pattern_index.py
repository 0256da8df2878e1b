"""Which of many patterns can match a text: one scan for the literals of all of them.

The result is a set of patterns as the bits of an integer, so that the results of several indexes can be combined.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from ahocorasick_rs import BytesAhoCorasick

SHORTEST = 3
"""Bytes of a literal: shorter ones are in most texts, often."""
FEWEST = 4
"""Fewer members are tried without a scan."""
LONG = 4096
"""Bytes; in longer texts each literal is searched by itself: a scan reports every occurrence, and there may be many."""
CACHE_SIZE = 4096
"""Sets whose members are kept."""
_EMPTY = 256
"""In the place of the first byte of an empty text."""

T = TypeVar("T")


class Requirement(NamedTuple):
    """What a text has when a pattern matches it; None: nothing is known.

    ``literals``: it contains one of them, in lower case. ``first_bytes``: it begins with one of them, in lower case.
    """

    literals: tuple[bytes, ...] | None = None
    first_bytes: frozenset[int] | None = None


ANY = Requirement()
"""Of a pattern of which nothing is known."""


class PatternIndex:
    """The requirements of patterns, by their bits."""

    __slots__ = ("_always", "_by_literal", "_first", "_search", "_with_literal")

    def __init__(self, requirements: Iterable[tuple[int, Requirement]]) -> None:
        """Bits, each with a requirement of what they stand for; one bit has one requirement."""
        self._always = 0
        self._first: list[int] | None = None
        by_literal: defaultdict[bytes, int] = defaultdict(int)
        by_first: list[tuple[int, frozenset[int]]] = []
        every = 0
        for bit, (literals, first_bytes) in requirements:
            every |= bit
            if first_bytes is not None:
                by_first.append((bit, first_bytes))
            if literals is None or min(map(len, literals)) < SHORTEST:
                self._always |= bit
            else:
                for literal in literals:
                    by_literal[literal] |= bit
        self._by_literal: dict[bytes, int] = by_literal
        self._with_literal = [*by_literal.values()]
        self._search: Callable[..., list[tuple[int, int, int]]] | None = None
        if by_literal:
            self._search = BytesAhoCorasick([*by_literal]).find_matches_as_indexes
        if by_first:
            self._first = [
                every & ~sum(bit for bit, first_bytes in by_first if byte not in first_bytes)
                for byte in range(_EMPTY + 1)
            ]

    def possible(self, text: bytes) -> int:
        """The bits of patterns that can match ``text``, which is in lower case."""
        found = self._always
        if len(text) > LONG:
            for one, bits in self._by_literal.items():
                if one in text:
                    found |= bits
        elif self._search is not None:
            with_literal = self._with_literal
            for literal, _, _ in self._search(text, overlapping=True):
                found |= with_literal[literal]
        if self._first is not None:
            return found & self._first[text[0] if text else _EMPTY]
        return found


class Members(Generic[T]):
    """The members of a sequence by the bits of a set: bit n is the n-th."""

    __slots__ = ("_all", "_known")

    def __init__(self, members: Sequence[T]) -> None:
        self._all = tuple(members)
        self._known: dict[int, tuple[T, ...]] = {}

    def of(self, bits: int) -> tuple[T, ...]:
        """Those of ``bits``, in their order."""
        found = self._known.get(bits)
        if found is None:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            found = self._known[bits] = tuple(self._of(bits))
        return found

    def _of(self, bits: int) -> Iterator[T]:
        while bits:
            lowest = bits & -bits
            yield self._all[lowest.bit_length() - 1]
            bits ^= lowest


class Choice(Generic[T]):
    """Members of a sequence with what each requires of a text."""

    __slots__ = ("_index", "_members", "all")

    def __init__(self, members: Sequence[tuple[T, Requirement]]) -> None:
        self.all = tuple(one for one, _ in members)
        self._index: PatternIndex | None = None
        if len(members) >= FEWEST and any(one != ANY for _, one in members):
            self._index = PatternIndex((1 << at, one) for at, (_, one) in enumerate(members))
            self._members = Members(self.all)

    def candidates(self, text: bytes) -> Sequence[T]:
        """Members that can match ``text``, which is in lower case, in their order."""
        return self.all if self._index is None else self._members.of(self._index.possible(text))
