"""The conditions of a question in one form, for the index (``index_query``) and for a single alert (``judging``).

A clause of ``q`` is about the terms ``name=value`` of an alert: ``=`` means one term, ``~`` a text behind ``name=``;
``<`` and ``>`` compare what is behind it as the query language does: numbers as numbers, dates as dates, other texts as
texts.
"""

import operator
import re
from collections.abc import Callable
from typing import NamedTuple

from secmon.alerts import document
from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.common.errors import SecmonError
from secmon.common.query import parser
from secmon.common.query.dates import instant
from secmon.common.query.syntax import EXCERPT, Clause, Node, Op, check_text, clauses

MAX_COSTLY = 20
"""Clauses of a query that look at all values of a field."""
MAX_CONTAINED = 256
"""Characters of the value of ``~``."""
MAX_WORDS = 50

_ANALYZER = document.analyzer()
_SEARCHED = re.compile(r'"([^"]*)"|(\S+)')
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?", re.ASCII)


class AnyTerm(NamedTuple):
    """The alert has one of the terms; ``excluded``: it has none of them."""

    terms: tuple[str, ...]
    excluded: bool = False


class Phrases(NamedTuple):
    """The alert has all phrases, each of one word or of several that follow each other; ``excluded``: not all."""

    phrases: tuple[tuple[str, ...], ...]
    excluded: bool = False


class AlertConditions:
    """All of these must hold: the time, each of ``terms``, ``phrases``, the tree of ``q``."""

    def __init__(self, question: AlertQuestion) -> None:
        """Raises 1407, 1408, 1409 for what cannot be asked."""
        self.since, self.until = question.since, question.until
        self.clauses: Node | None = _parse(question.q) if question.q else None
        self.phrases: Phrases | None = _phrases(question.search) if question.search else None
        self.terms = [*(_any_of(name, values) for name, values in question.values.items())]
        if question.levels:
            low, high = question.levels
            self.terms.append(_any_of("rule.level", tuple(str(level) for level in range(low, high + 1))))
        if question.agents != AgentSelection():
            self.terms.append(_any_of("agent.id", question.agents.ids, excluded=question.agents.excluded))


def prefix_of(name: str) -> str:
    """What the terms of the field ``name`` begin with."""
    return f"{name}="


def comparison(clause: Clause) -> Callable[[str], bool]:
    """The test of a clause with ``<`` or ``>`` on a value."""
    compare: Callable[..., bool] = operator.lt if clause.op is Op.LT else operator.gt
    asked = clause.value.strip()
    if _NUMBER.fullmatch(asked):
        number = float(asked)
        return lambda value: _NUMBER.fullmatch(value) is not None and compare(float(value), number)
    moment = instant(asked)
    if moment is not None:
        return lambda value: (own := instant(value)) is not None and compare(own, moment)
    return lambda value: compare(value, asked)


def _any_of(name: str, values: tuple[str, ...], *, excluded: bool = False) -> AnyTerm:
    return AnyTerm(tuple(f"{prefix_of(name)}{value}" for value in values), excluded)


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


def _phrases(text: str) -> Phrases:
    """All words, and phrases in quotation marks; with ``-`` in front, alerts that do not have them all. Raises 1407."""
    check_text("search", text)
    wanted = [_ANALYZER.analyze(one[1] or one[2]) for one in _SEARCHED.finditer(text.removeprefix("-"))]
    phrases = tuple(tuple(words) for words in wanted if words)
    if not phrases or sum(map(len, phrases)) > MAX_WORDS:
        raise SecmonError(1407, f"search holds no word, or more than {MAX_WORDS}: {text[:EXCERPT]!r}")
    return Phrases(phrases, text.startswith("-"))
