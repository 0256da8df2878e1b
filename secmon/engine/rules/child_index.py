"""Finds the children of a rule that an event can match: the same result as evaluating all of them, but faster.

A child is skipped when a text of the event cannot match one of its conditions. The order of the rest is kept.
Conditions with side effects come after those that are indexed here, so skipping a child skips no side effect.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence

from secmon.engine.event import Event
from secmon.engine.matching.pattern_index import Members, PatternIndex
from secmon.engine.rules.rule import Precondition, Rule, selectivity

MIN_CHILDREN = 4
"""A rule with fewer children has no index; of a text that fewer children test only its presence is indexed."""
MAX_TEXTS = 8
"""Texts that one index uses."""
BLOCK = 2048
"""Children of one index: a set of them is an integer of as many bits, and there is one for each child."""

Bit = int
"""One child in a set of children: the first one is bit 0."""


class ChildIndex:
    """The children of one rule, or :data:`BLOCK` of them."""

    __slots__ = ("_any_decoder", "_by_decoder", "_members", "_need_a_field", "_texts", "_without_field")

    def __init__(self, children: Sequence[Rule]) -> None:
        self._members = Members(children)
        self._any_decoder = 0
        self._by_decoder: defaultdict[int, int] = defaultdict(int)
        tests: defaultdict[str, list[tuple[Bit, Precondition]]] = defaultdict(list)
        for at, child in enumerate(children):
            if child.decoder is None:
                self._any_decoder |= 1 << at
            else:
                self._by_decoder[child.decoder] |= 1 << at
            for one in child.preconditions:
                tests[one.text].append((1 << at, one))
        most = sorted(tests.values(), key=len, reverse=True)[:MAX_TEXTS]
        every = (1 << len(children)) - 1
        self._texts = [_TextIndex(found, every) for found in most if len(found) >= MIN_CHILDREN]
        fields = _one_field_of_each(children, {found[0][1].text for found in most if len(found) >= MIN_CHILDREN})
        self._need_a_field = sum(fields.values())
        self._without_field = [(name, every & ~bits) for name, bits in fields.items()]
        """Names of dynamic fields, each with the children that an event without it can match."""

    def candidates(self, event: Event) -> Sequence[Rule]:
        """Children that may match, in their order."""
        found = self._any_decoder
        if event.decoder is not None:
            found |= self._by_decoder.get(event.decoder.id, 0)
        for index in self._texts:
            if not found:
                return ()
            if found & index.tested:
                found &= index.possible(event)
        if found & self._need_a_field:
            names = event.names
            for name, others in self._without_field:
                if name not in names:
                    found &= others
        return self._members.of(found)


class BlockedIndex:
    """The children of a rule that has very many, such as one of a file that a program has written."""

    __slots__ = ("_blocks",)

    def __init__(self, children: Sequence[Rule]) -> None:
        self._blocks = [ChildIndex(children[start : start + BLOCK]) for start in range(0, len(children), BLOCK)]

    def candidates(self, event: Event) -> Sequence[Rule]:
        """Children that may match, in their order."""
        return [child for block in self._blocks for child in block.candidates(event)]


def index_of(children: Sequence[Rule]) -> ChildIndex | BlockedIndex | None:
    """None for few children."""
    if len(children) < MIN_CHILDREN:
        return None
    return ChildIndex(children) if len(children) <= BLOCK else BlockedIndex(children)


def _one_field_of_each(children: Sequence[Rule], indexed: Container[str]) -> dict[str, int]:
    """For children that test none of the ``indexed`` texts: a dynamic field that each needs, and the bits of those."""
    fields: defaultdict[str, int] = defaultdict(int)
    for at, child in enumerate(children):
        tested = [one.text for one in child.preconditions]
        names = [text[1:] for text in tested if text.startswith(".")]
        if names and not any(text in indexed for text in tested):
            fields[names[0]] |= 1 << at
    return fields


class _TextIndex:
    """What children require of one text of an event."""

    __slots__ = ("_by_value", "_getter", "_patterns", "_untested", "tested")

    def __init__(self, tests: Sequence[tuple[Bit, Precondition]], every: int) -> None:
        best = dict(sorted(tests, key=lambda test: selectivity(test[1])))  # of two of one child the one that says more
        self._getter = tests[0][1].getter
        self.tested = sum(best)
        """Children that test the text."""
        self._untested = every & ~self.tested
        self._by_value: defaultdict[bytes, int] = defaultdict(int)
        for bit, one in best.items():
            for value in one.values or ():
                self._by_value[value] |= bit
        self._patterns = PatternIndex((bit, one.requirement) for bit, one in best.items() if one.values is None)

    def possible(self, event: Event) -> int:
        """Children that can match the text of ``event``."""
        value = self._getter(event)
        if value is None:
            return self._untested
        text = value.lower()
        return self._untested | self._by_value.get(text, 0) | self._patterns.possible(text)


def index_children(rules: Iterable[Rule]) -> None:
    """Give every rule with many children an index. Call it when all rules are loaded."""
    for rule in rules:
        rule.index = index_of(rule.children)
