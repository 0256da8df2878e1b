"""From conditions to a query of the index.

``~`` is a pattern over the terms of a field; ``<`` and ``>`` compare the values that the field has in the partition.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import tantivy

from secmon.alerts import document
from secmon.alerts.conditions import AlertConditions, AnyTerm, Phrases, comparison, prefix_of
from secmon.alerts.partition import EVERYTHING, Partition
from secmon.common.errors import SecmonError
from secmon.common.query.syntax import And, Clause, Node, Op

MAX_COMPARED = 100_000
"""Values of a field in a partition that ``<`` and ``>`` are compared with."""

Query = tantivy.Query
_MUST, _SHOULD, _NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
_SCHEMA = document.schema()
_SPECIAL = re.compile(r"([^\w\s])", re.ASCII)


class IndexQuery:
    """The conditions of one question, translated once for all partitions."""

    def __init__(self, conditions: AlertConditions, *also: Query) -> None:
        """``also``: further queries that must hold."""
        self._conditions = conditions
        self._always = [*also, *(_any_term(one) for one in conditions.terms)]
        if conditions.phrases is not None:
            self._always.append(_phrases(conditions.phrases))

    def concerns(self, partition: Partition) -> bool:
        """Whether the partition has alerts of the time that is asked for."""
        since, until = self._conditions.since, self._conditions.until
        first, last = partition.span
        return first <= last and (since is None or last >= since) and (until is None or first < until)

    def of(self, partition: Partition) -> Query:
        """What the alerts of a partition must meet. Raises 1407 when it would compare too much."""
        queries = [*self._always, *_of_time(self._conditions, partition)]
        if self._conditions.clauses is not None:
            queries.append(_Translation(partition).of(self._conditions.clauses))
        return _all_of(queries)


def among(alerts: Mapping[str, Iterable[str]], *, excluded: bool) -> Query:
    """Alerts whose ids are among those of their agent; ``excluded``: all others."""
    chosen = [
        _all_of([_term("agent.id", agent), _any_term(AnyTerm(tuple(f"{prefix_of('id')}{one}" for one in ids)))])
        for agent, ids in alerts.items()
    ]
    found = Query.boolean_query([(_SHOULD, one) for one in chosen]) if chosen else Query.empty_query()
    return _not(found) if excluded else found


def before(order: int, *, included: bool) -> Query:
    """Alerts behind a place in the order from new to old."""
    return _between(document.ORDER, None, order + included)


def after(sequence: int) -> Query:
    """Alerts that were stored after the one with this number."""
    return _between(document.SEQUENCE, sequence + 1, None)


def both(left: Query, right: Query) -> Query:
    """Alerts that meet both."""
    return _all_of([left, right])


def _of_time(conditions: AlertConditions, partition: Partition) -> list[Query]:
    """The condition on the time, unless the whole partition meets it."""
    since, until = conditions.since, conditions.until
    since = None if since is None or since <= partition.span.first else since
    until = None if until is None or until > partition.span.last else until
    return [] if since is None and until is None else [_between(document.TIME, since, until)]


def _between(name: str, low: int | None, high: int | None) -> Query:
    """Numbers from ``low`` on and below ``high``."""
    return Query.range_query(_SCHEMA, name, tantivy.FieldType.Unsigned, low, high, include_upper=high is None)


def _any_term(condition: AnyTerm) -> Query:
    if not condition.terms:
        return EVERYTHING if condition.excluded else Query.empty_query()
    found = Query.const_score_query(Query.term_set_query(_SCHEMA, document.TERMS, list(condition.terms)), 0.0)
    return _not(found) if condition.excluded else found


def _phrases(condition: Phrases) -> Query:
    found = _all_of([_phrase(words) for words in condition.phrases])
    return _not(found) if condition.excluded else found


def _phrase(words: Sequence[str]) -> Query:
    if len(words) == 1:
        return Query.term_query(_SCHEMA, document.WORDS, words[0])
    return Query.phrase_query(_SCHEMA, document.WORDS, [*words])


def _all_of(queries: Sequence[Query]) -> Query:
    if not queries:
        return EVERYTHING
    return queries[0] if len(queries) == 1 else Query.boolean_query([(_MUST, one) for one in queries])


def _not(query: Query) -> Query:
    return Query.boolean_query([(_MUST, EVERYTHING), (_NOT, query)])


class _Translation:
    """From the tree of ``q`` to a query of one partition. Values of a field are listed once."""

    def __init__(self, partition: Partition) -> None:
        self._searcher = partition.searcher
        self._listed: dict[str, list[str]] = {}

    def of(self, node: Node) -> Query:
        if isinstance(node, Clause):
            return self._clause(node)
        queries = [self.of(one) for one in node.terms]
        return _all_of(queries) if isinstance(node, And) else Query.boolean_query([(_SHOULD, one) for one in queries])

    def _clause(self, clause: Clause) -> Query:
        name, value = clause.field, clause.value
        match clause.op:
            case Op.EQ:
                return _term(name, value)
            case Op.NE:  # it has the field, and no such value
                return Query.boolean_query([(_MUST, _matching(name, "")), (_NOT, _term(name, value))])
            case Op.LIKE:
                return _matching(name, value)
        holds = comparison(clause)
        return _any_term(AnyTerm(tuple(f"{prefix_of(name)}{one}" for one in self._values(name) if holds(one))))

    def _values(self, name: str) -> list[str]:
        if name not in self._listed:
            prefix = prefix_of(name)
            found = self._searcher.terms_with_prefix(document.TERMS, prefix, limit=MAX_COMPARED + 1)
            if len(found) > MAX_COMPARED:
                raise SecmonError(1407, f"{name} has more than {MAX_COMPARED} values to compare with")
            self._listed[name] = [one.removeprefix(prefix) for one, _ in found]
        return self._listed[name]


def _term(name: str, value: str) -> Query:
    """Alerts with exactly this value in the field."""
    return Query.term_query(_SCHEMA, document.TERMS, f"{prefix_of(name)}{value}")


def _matching(name: str, contained: str) -> Query:
    """Alerts with a value in the field that contains the text."""
    pattern = f"{_escape(prefix_of(name))}(?s:.)*"
    if contained:
        pattern += f"{_escape(contained)}(?s:.)*"
    return Query.regex_query(_SCHEMA, document.TERMS, pattern)


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda one: f"\\{one[0]}" if one[0].isascii() else one[0], text)
