"""Conditions on one alert, judged in memory exactly as the index judges them: on the same terms and words."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from secmon.alerts import document
from secmon.alerts.conditions import AlertConditions, AnyTerm, Phrases, comparison
from secmon.common.query.syntax import And, Clause, Node, Op


class JudgedAlert:
    """An alert with what conditions ask of it, made when the first one asks."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @cached_property
    def time(self) -> int | None:
        """Milliseconds since 1970; None: it says none, so that the index would not take it."""
        try:
            return document.milliseconds(self._fields["timestamp"])
        except (KeyError, TypeError, ValueError):
            return None

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(self._contents.terms)

    @cached_property
    def values(self) -> Mapping[str, list[str]]:
        """What is behind ``name=`` in the terms, by name; names that conditions can say have no ``=``."""
        found: dict[str, list[str]] = {}
        for term in self._contents.terms:
            name, _, value = term.partition("=")
            found.setdefault(name, []).append(value)
        return found

    @cached_property
    def words(self) -> list[str | None]:
        """In their order; None for one that is too long to be found."""
        return document.words(self._contents.text)

    @cached_property
    def _contents(self) -> document.Contents:
        return document.contents(self._fields)


Test = Callable[[JudgedAlert], bool]


class AlertTest:
    """The test of a question on single alerts."""

    def __init__(self, conditions: AlertConditions) -> None:
        self._since, self._until = conditions.since, conditions.until
        self._tests = [_any_term(one) for one in conditions.terms]
        if conditions.clauses is not None:
            self._tests.append(_tree(conditions.clauses))
        if conditions.phrases is not None:
            self._tests.append(_phrases(conditions.phrases))

    def meets(self, alert: JudgedAlert) -> bool:
        """Whether the alert meets all conditions."""
        time = alert.time
        if time is None or (self._since or 0) > time or (self._until is not None and time >= self._until):
            return False
        return all(test(alert) for test in self._tests)


def _any_term(condition: AnyTerm) -> Test:
    terms = frozenset(condition.terms)
    if condition.excluded:
        return lambda alert: terms.isdisjoint(alert.terms)
    return lambda alert: not terms.isdisjoint(alert.terms)


def _tree(node: Node) -> Test:
    if isinstance(node, Clause):
        return _clause(node)
    tests = [_tree(one) for one in node.terms]
    if isinstance(node, And):
        return lambda alert: all(test(alert) for test in tests)
    return lambda alert: any(test(alert) for test in tests)


def _clause(clause: Clause) -> Test:
    name, asked = clause.field, clause.value
    match clause.op:
        case Op.EQ:
            return lambda alert: asked in alert.values.get(name, ())
        case Op.NE:  # it has the field, and no such value
            return lambda alert: name in alert.values and asked not in alert.values[name]
        case Op.LIKE:
            return lambda alert: any(asked in value for value in alert.values.get(name, ()))
    holds = comparison(clause)
    return lambda alert: any(holds(value) for value in alert.values.get(name, ()))


def _phrases(condition: Phrases) -> Test:
    def found(alert: JudgedAlert) -> bool:
        return all(_follow(alert.words, phrase) for phrase in condition.phrases)

    return (lambda alert: not found(alert)) if condition.excluded else found


def _follow(words: list[str | None], phrase: tuple[str, ...]) -> bool:
    """Whether the words of ``phrase`` follow each other somewhere."""
    at = -1
    while True:
        try:
            at = words.index(phrase[0], at + 1)
        except ValueError:
            return False
        if tuple(words[at : at + len(phrase)]) == phrase:
            return True
