"""Which children of a rule an event can match at all: the same result as asking every one, but quicker.

A child that requires a decoder, or one of a few values of a field, is passed over for events that have another. The
order of those left is untouched, and conditions with side effects come after the ones that are looked at here.
"""

from collections import Counter
from collections.abc import Sequence

from secmon.engine.event import Event
from secmon.engine.rules.rule import Rule

SMALLEST = 4
"""Fewer children are asked one by one."""
FIELDS = 2
"""Fields that one index looks at."""
REMEMBERED = 4096
"""Combinations of values whose children are remembered."""

Key = tuple[int, tuple[bytes | None, ...]]


class ChildIndex:
    """The children of one rule."""

    __slots__ = ("_children", "_fields", "_known", "_wanted")

    def __init__(self, children: Sequence[Rule]) -> None:
        self._children = children
        names = Counter(need.field_name for child in children for need in child.needs if need.field_name)
        self._fields = tuple(name for name, count in names.most_common(FIELDS) if count >= SMALLEST)
        needs = [need for child in children for need in child.needs]
        self._wanted = tuple(
            frozenset().union(*(need.values for need in needs if need.field_name == name)) for name in self._fields
        )
        self._known: dict[Key, tuple[Rule, ...]] = {}

    def candidates(self, event: Event) -> Sequence[Rule]:
        """Children that may match, in their order."""
        key = (event.decoder.id if event.decoder is not None else 0, self._values(event))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[key] = tuple(child for child in self._children if self._possible(child, key))
        return found

    def _values(self, event: Event) -> tuple[bytes | None, ...]:
        """What no child asks for is as good as none: values that events bring are not remembered."""
        values = (_value(event, name) for name in self._fields)
        return tuple(value if value in wanted else None for value, wanted in zip(values, self._wanted, strict=True))

    def _possible(self, child: Rule, key: Key) -> bool:
        decoder, values = key
        for need in child.needs:
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
    """Give every rule with many children an index; to be called when all are loaded."""
    for rule in rules:
        rule.index = ChildIndex(rule.children) if len(rule.children) >= SMALLEST else None
