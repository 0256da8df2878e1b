"""A direct evaluator of Sigma detections, independent of pySigma and of our rules: for comparison."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Event = Mapping[str, str]
SYSTEM = ("1", "Microsoft-Windows-Sysmon/Operational", '"m"')
"""Values that each event has besides."""
_PARTS = re.compile(r"\\\\|\\([*?])|([*?])|(.)", re.DOTALL)


def matches(detection: Mapping[str, Any], event: Event) -> bool:
    """Whether the condition of a detection holds."""
    searches = {name: search(value, event) for name, value in detection.items() if name != "condition"}
    return _Condition(str(detection["condition"]), searches).value()


def search(value: Any, event: Event) -> bool:
    """A search identifier: a mapping is a conjunction, a list a disjunction, other values are keywords."""
    if isinstance(value, dict):
        return all(_field(name, wanted, event) for name, wanted in value.items())
    if isinstance(value, list):
        return any(search(one, event) for one in value)
    return any(_matches(f"*{value}*", text, fold=True) for text in (*event.values(), *SYSTEM))


def _field(name: str, wanted: Any, event: Event) -> bool:
    field, *modifiers = name.split("|")
    values = wanted if isinstance(wanted, list) else [wanted]
    found = [_value(event.get(field), one, modifiers) for one in values]
    return all(found) if "all" in modifiers else any(found)


def _value(text: str | None, wanted: Any, modifiers: Sequence[str]) -> bool:
    if "exists" in modifiers:
        return (text is not None) is wanted
    if wanted is None or wanted == "":
        return not text
    if text is None:
        return False
    for name, compare in _COMPARISONS.items():
        if name in modifiers:
            return bool(re.fullmatch(r"[+-]?\d+", text)) and compare(int(text), wanted)
    if "re" in modifiers:
        return re.search(str(wanted), text, re.IGNORECASE if "i" in modifiers else 0) is not None
    pattern = str(wanted)
    before = "*" if {"contains", "endswith"} & set(modifiers) else ""
    behind = "*" if {"contains", "startswith"} & set(modifiers) else ""
    return _matches(before + pattern + behind, text, fold="cased" not in modifiers)


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda one, other: one < other,
    "lte": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "gte": lambda one, other: one >= other,
}


def _matches(pattern: str, text: str, *, fold: bool) -> bool:
    """A text against a pattern with wildcards: ``\\*`` and ``\\?`` are plain, ``\\\\`` is one backslash."""
    made = ""
    for found in _PARTS.finditer(pattern):
        plain, wildcard, other = found.groups()
        if wildcard:
            made += ".*" if wildcard == "*" else "."
        else:
            made += re.escape(plain or other or "\\")
    return re.fullmatch(made, text, re.DOTALL | (re.IGNORECASE if fold else 0)) is not None


class _Condition:
    """``a and not (b or 1 of c*)``, with the precedence not, and, or."""

    def __init__(self, text: str, searches: Mapping[str, bool]) -> None:
        self._tokens = re.findall(r"[()]|[^\s()]+", text)
        self._searches = searches

    def value(self) -> bool:
        found = self._or()
        assert not self._tokens, self._tokens
        return found

    def _or(self) -> bool:
        found = [self._and()]
        while self._next("or"):
            found.append(self._and())
        return any(found)

    def _and(self) -> bool:
        found = [self._not()]
        while self._next("and"):
            found.append(self._not())
        return all(found)

    def _not(self) -> bool:
        if self._next("not"):
            return not self._not()
        if self._next("("):
            found = self._or()
            assert self._next(")")
            return found
        first = self._tokens.pop(0)
        if first in ("1", "any", "all") and self._next("of"):
            some = self._some(self._tokens.pop(0))
            return all(some) if first == "all" else any(some)
        return self._searches[first]

    def _some(self, pattern: str) -> list[bool]:
        if pattern == "them":
            return [found for name, found in self._searches.items() if not name.startswith("_")]
        like = re.compile(re.escape(pattern).replace(r"\*", ".*"))
        return [found for name, found in self._searches.items() if like.fullmatch(name)]

    def _next(self, word: str) -> bool:
        if self._tokens[:1] == [word]:
            del self._tokens[0]
            return True
        return False
