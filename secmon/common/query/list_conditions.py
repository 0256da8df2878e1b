"""``q`` and ``search`` over Python objects: the list engine of conventions.md 5.2, 5.3 and 5.5."""

import operator
import re
from collections.abc import Callable, Iterator

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.query.dates import instant
from secmon.common.query.syntax import EXCERPT, And, Clause, Node, Op, Search

Test = Callable[[object], bool]

_INTEGER = re.compile(r" *-?[0-9]{1,4000} *")  # int() refuses texts of more than 4300 digits
_NUMBER = re.compile(r" *-?[0-9]{1,4000}(?:\.[0-9]*)? *")
_COMPARE: dict[Op, Callable[..., bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.GT: operator.gt,
    Op.LIKE: operator.contains,
}


def matches(node: Node) -> Test:
    """A test of one item. Calling it may raise 1407: an integer field compared with something else."""
    if isinstance(node, Clause):
        return _clause(node)
    tests = tuple(matches(term) for term in node.terms)
    if isinstance(node, And):
        return lambda item: all(test(item) for test in tests)
    return lambda item: any(test(item) for test in tests)


def contains(search: Search, within: tuple[str, ...] | None = None) -> Test:
    """A test of one item: a value at any depth holds the text, letter case aside. Keys are not searched.

    ``within`` limits it to these top-level fields. Empty text keeps everything, negated or not.
    """
    needle = search.text.lower()
    if not needle:
        return lambda item: True

    def found(item: object) -> bool:
        if within is not None and isinstance(item, dict):
            item = [item[name] for name in within if name in item]
        return any(needle in text for text in _texts(item)) is not search.negate

    return found


def json_text(value: object) -> str:
    """The value as compact JSON, keys sorted; a text as it is."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()


def _clause(clause: Clause) -> Test:
    path = tuple(clause.field.split("."))
    holds = _Comparison(clause)
    return lambda item: any(holds(value) for value in _values(item, path))


def _values(value: object, path: tuple[str, ...]) -> Iterator[object]:
    """The values at ``path``: lists, on the way and at the end, give their elements; nulls give nothing."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _values(element, path)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _values(value[path[0]], path[1:])
    elif value is not None:
        yield value


class _Comparison:
    """One clause with its value read once as text, integer and instant."""

    def __init__(self, clause: Clause) -> None:
        self._clause = clause
        self._op = clause.op
        self._compare = _COMPARE[clause.op]
        self._text = clause.value
        self._integer = int(self._text) if _INTEGER.fullmatch(self._text) else None
        self._number = float(self._text) if _NUMBER.fullmatch(self._text) else None
        self._instant = instant(self._text) if clause.op is not Op.LIKE else None

    def __call__(self, value: object) -> bool:
        if self._op is not Op.LIKE and isinstance(value, int) and not isinstance(value, bool):
            return self._compare(value, self._need_integer())
        if self._op in (Op.LT, Op.GT) and isinstance(value, float) and self._number is not None:
            return self._compare(value, self._number)
        text = json_text(value)
        if self._instant is None:
            return self._compare(text, self._text)
        own = instant(text)
        return self._op is Op.NE if own is None else self._compare(own, self._instant)

    def _need_integer(self) -> int:
        if self._integer is None:
            raise SecmonError(1407, f"{str(self._clause)[:EXCERPT]!r}: the field holds integers")
        return self._integer


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for element in value.values():
            yield from _texts(element)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _texts(element)
    else:
        yield str(value).lower()
