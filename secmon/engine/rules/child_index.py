"""Finds the children of a rule that an event can match: the same result as evaluating all of them, but faster.

A child whose preconditions name another decoder, or other values of a field, is skipped. The order of the rest is kept.
Conditions with side effects come after those that are indexed here, so skipping a child skips no side effect.
"""

from collections import Counter
from collections.abc import Sequence

from secmon.engine.event import Event
from secmon.engine.rules.rule import Rule

MIN_CHILDREN = 4
"""A rule with fewer children has no index."""
FIELDS = 2
"""Fields that one index uses."""
CACHE_SIZE = 4096
"""Combinations of values whose candidates are cached."""

IndexKey = tuple[int, tuple[bytes | None, ...]]


class ChildIndex:
    """The children of one rule."""

    __slots__ = ("_children", "_fields", "_known", "_wanted")

    def __init__(self, children: Sequence[Rule]) -> None:
        self._children = children
        names = Counter(need.field_name for child in children for need in child.preconditions if need.field_name)
        self._fields = tuple(name for name, count in names.most_common(FIELDS) if count >= MIN_CHILDREN)
        preconditions = [need for child in children for need in child.preconditions]
        self._wanted = tuple(
            frozenset().union(*(need.values for need in preconditions if need.field_name == name))
            for name in self._fields
        )
        self._known: dict[IndexKey, tuple[Rule, ...]] = {}

    def candidates(self, event: Event) -> Sequence[Rule]:
        """Children that may match, in their order."""
        key = (event.decoder.id if event.decoder is not None else 0, self._values(event))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            found = self._known[key] = tuple(child for child in self._children if self._can_match(child, key))
        return found

    def _values(self, event: Event) -> tuple[bytes | None, ...]:
        """The indexed fields; None for a value that no child names, so that events cannot fill the cache."""
        values = (_value(event, name) for name in self._fields)
        return tuple(value if value in wanted else None for value, wanted in zip(values, self._wanted, strict=True))

    def _can_match(self, child: Rule, key: IndexKey) -> bool:
        decoder, values = key
        for need in child.preconditions:
            if need.decoders is not None:
                if decoder not in need.decoders:
                    return False
            elif need.field_name in self._fields:
                value = values[self._fields.index(need.field_name)]
                if value is None or value not in need.values:
                    return False
        return True


def _value(event: Event, name: str) -> bytes | None:
    """A field in lower case; dynamic ones are called ``.name``."""
    value = event.names.get(name[1:]) if name.startswith(".") else event.static.get(name)
    return None if value is None else value.lower()


def index_children(rules: Sequence[Rule]) -> None:
    """Give every rule with many children an index. Call it when all rules are loaded."""
    for rule in rules:
        rule.index = ChildIndex(rule.children) if len(rule.children) >= MIN_CHILDREN else None
