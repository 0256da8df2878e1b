"""From a question to a query of the index.

A clause of ``q`` names the terms of its field that it matches. ``=`` is one term; ``~`` a pattern over the terms; ``<``
and ``>`` compare the values that the field has in the partition, as the query language does: numbers as numbers, dates
as dates, other texts as texts.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence

import tantivy

from secmon.alerts import document
from secmon.alerts.partition import EVERYTHING, Partition
from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.common.errors import SecmonError
from secmon.common.query import parser
from secmon.common.query.dates import instant
from secmon.common.query.syntax import EXCERPT, And, Clause, Node, Op, check_text, clauses

MAX_COSTLY = 20
"""Clauses of a query that look at all values of a field."""
MAX_COMPARED = 100_000
"""Values of a field in a partition that ``<`` and ``>`` are compared with."""
MAX_CONTAINED = 256
"""Characters of the value of ``~``."""
MAX_WORDS = 50

Query = tantivy.Query
_MUST, _SHOULD, _NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
_SCHEMA = document.schema()
_ANALYZER = document.analyzer()
_SEARCHED = re.compile(r'"([^"]*)"|(\S+)')
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?", re.ASCII)
_SPECIAL = re.compile(r"([^\w\s])", re.ASCII)


class AlertConditions:
    """The conditions of one question, read once for all partitions."""

    def __init__(self, question: AlertQuestion) -> None:
        """Raises 1407, 1408, 1409 for what cannot be asked."""
        self._question = question
        self._node = _parse(question.q) if question.q else None
        self._always = [
            *([_of_agents(question.agents)] if question.agents != AgentSelection() else []),
            *(_one_of(name, values) for name, values in question.values.items()),
            *([_of_levels(*question.levels)] if question.levels else []),
            *([_words(question.search)] if question.search else []),
        ]

    def concern(self, partition: Partition) -> bool:
        """Whether the partition has alerts of the time that is asked for."""
        since, until = self._question.since, self._question.until
        first, last = partition.span
        return first <= last and (since is None or last >= since) and (until is None or first < until)

    def query(self, partition: Partition) -> Query:
        """What the alerts of a partition must meet. Raises 1407 when it would compare too much."""
        terms = [*self._always, *_of_time(self._question, partition)]
        if self._node is not None:
            terms.append(_Translation(partition).of(self._node))
        return _all_of(terms)


def term(name: str, value: str) -> Query:
    """Alerts with exactly this value in the field."""
    return Query.term_query(_SCHEMA, document.TERMS, f"{name}={value}")


def before(order: int, *, included: bool) -> Query:
    """Alerts behind a place in the order from new to old."""
    return _between(document.ORDER, None, order + included)


def after(sequence: int) -> Query:
    """Alerts that were stored after the one with this number."""
    return _between(document.SEQUENCE, sequence + 1, None)


def both(left: Query, right: Query) -> Query:
    """Alerts that meet both."""
    return _all_of([left, right])


def _parse(text: str) -> Node:
    node = parser.parse(text)
    costly = 0
    for clause in clauses(node):
        if clause.field in document.UNINDEXED:
            reason = "ask by since and until" if clause.field == "timestamp" else "find its words by search"
            raise SecmonError(1408, f"{clause.field!r}: {reason}")
        if clause.op is Op.LIKE and len(clause.value) > MAX_CONTAINED:
            raise SecmonError(1407, f"the value of {clause.field}~ is longer than {MAX_CONTAINED} characters")
        costly += clause.op is not Op.EQ
    if costly > MAX_COSTLY:
        raise SecmonError(1407, f"more than {MAX_COSTLY} clauses with !=, <, > or ~")
    return node


def _of_time(question: AlertQuestion, partition: Partition) -> list[Query]:
    """The condition on the time, unless the whole partition meets it."""
    since, until = question.since, question.until
    since = None if since is None or since <= partition.span.first else since
    until = None if until is None or until > partition.span.last else until
    return [] if since is None and until is None else [_between(document.TIME, since, until)]


def _between(name: str, low: int | None, high: int | None) -> Query:
    """Numbers from ``low`` on and below ``high``."""
    return Query.range_query(_SCHEMA, name, tantivy.FieldType.Unsigned, low, high, include_upper=high is None)


def _of_agents(agents: AgentSelection) -> Query:
    chosen = _one_of("agent.id", agents.ids)
    return Query.boolean_query([(_MUST, EVERYTHING), (_NOT, chosen)]) if agents.excluded else chosen


def _of_levels(low: int, high: int) -> Query:
    return _one_of("rule.level", [str(level) for level in range(low, high + 1)])


def _one_of(name: str, values: Iterable[str]) -> Query:
    return _among([f"{name}={value}" for value in values])


def _among(terms: Sequence[str]) -> Query:
    if not terms:
        return Query.empty_query()
    return Query.const_score_query(Query.term_set_query(_SCHEMA, document.TERMS, terms), 0.0)


def _words(text: str) -> Query:
    """All words, and phrases in quotation marks; with ``-`` in front, alerts that do not have them all. Raises 1407."""
    check_text("search", text)
    negated = text.startswith("-")
    wanted = [_ANALYZER.analyze(one[1] or one[2]) for one in _SEARCHED.finditer(text.removeprefix("-"))]
    wanted = [words for words in wanted if words]
    if not wanted or sum(map(len, wanted)) > MAX_WORDS:
        raise SecmonError(1407, f"search holds no word, or more than {MAX_WORDS}: {text[:EXCERPT]!r}")
    found = _all_of([_phrase(words) for words in wanted])
    return Query.boolean_query([(_MUST, EVERYTHING), (_NOT, found)]) if negated else found


def _phrase(words: list[str]) -> Query:
    if len(words) == 1:
        return Query.term_query(_SCHEMA, document.WORDS, words[0])
    return Query.phrase_query(_SCHEMA, document.WORDS, [*words])


def _all_of(queries: Sequence[Query]) -> Query:
    if not queries:
        return EVERYTHING
    return queries[0] if len(queries) == 1 else Query.boolean_query([(_MUST, one) for one in queries])


class _Translation:
    """From the tree of ``q`` to a query of one partition. Values of a field are listed once."""

    def __init__(self, partition: Partition) -> None:
        self._searcher = partition.searcher
        self._listed: dict[str, list[str]] = {}

    def of(self, node: Node) -> Query:
        if isinstance(node, Clause):
            return self._clause(node)
        terms = [self.of(one) for one in node.terms]
        return _all_of(terms) if isinstance(node, And) else Query.boolean_query([(_SHOULD, one) for one in terms])

    def _clause(self, clause: Clause) -> Query:
        name, value = clause.field, clause.value
        match clause.op:
            case Op.EQ:
                return term(name, value)
            case Op.NE:  # it has the field, and no such value
                return Query.boolean_query([(_MUST, _matching(name, "")), (_NOT, term(name, value))])
            case Op.LIKE:
                return _matching(name, value)
        holds = _comparison(clause)
        return _among([f"{name}={one}" for one in self._values(name) if holds(one)])

    def _values(self, name: str) -> list[str]:
        if name not in self._listed:
            prefix = f"{name}="
            found = self._searcher.terms_with_prefix(document.TERMS, prefix, limit=MAX_COMPARED + 1)
            if len(found) > MAX_COMPARED:
                raise SecmonError(1407, f"{name} has more than {MAX_COMPARED} values to compare with")
            self._listed[name] = [one.removeprefix(prefix) for one, _ in found]
        return self._listed[name]


def _matching(name: str, contained: str) -> Query:
    """Alerts with a value in the field that contains the text."""
    pattern = f"{_escape(name)}=(?s:.)*"
    if contained:
        pattern += f"{_escape(contained)}(?s:.)*"
    return Query.regex_query(_SCHEMA, document.TERMS, pattern)


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda one: f"\\{one[0]}" if one[0].isascii() else one[0], text)


def _comparison(clause: Clause) -> Callable[[str], bool]:
    compare: Callable[..., bool] = operator.lt if clause.op is Op.LT else operator.gt
    asked = clause.value.strip()
    if _NUMBER.fullmatch(asked):
        number = float(asked)
        return lambda value: _NUMBER.fullmatch(value) is not None and compare(float(value), number)
    moment = instant(asked)
    if moment is not None:
        return lambda value: (own := instant(value)) is not None and compare(own, moment)
    return lambda value: compare(value, asked)
