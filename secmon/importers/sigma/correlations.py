"""Sigma's correlations, and the older aggregations in conditions, as composites.

The events that a composite counts are selected by rules without alerts, each the root of a side tree of its own: they
are counted whatever other rules do.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sigma.correlations import (
    SigmaCorrelationCondition,
    SigmaCorrelationConditionOperator,
    SigmaCorrelationRule,
    SigmaCorrelationTimespan,
    SigmaCorrelationType,
)
from sigma.exceptions import SigmaTimespanError

from secmon.importers.sigma.conditions import ALWAYS, Condition, all_of, any_of
from secmon.importers.sigma.ids import HELPER
from secmon.importers.sigma.mapping import LogSource
from secmon.importers.sigma.rule_xml import XmlRule
from secmon.importers.sigma.values import Untranslatable

MAX_SECONDS, MAX_EVENTS = 99_999, 9_999
"""What ``timeframe`` and ``frequency`` can say."""
_AGGREGATION = re.compile(
    r"(?P<condition>.*?)\|\s*count\(\s*(?P<field>[^()\s]*)\s*\)(?:\s+by\s+(?P<by>[^|<>=]+?))?"
    r"\s*(?P<operator>>=|>|<=|<|==|=)\s*(?P<count>\d+)\s*",
    re.DOTALL,
)
_EVENTS, _VALUES = SigmaCorrelationType.EVENT_COUNT, SigmaCorrelationType.VALUE_COUNT
_TEMPORAL, _ORDERED = SigmaCorrelationType.TEMPORAL, SigmaCorrelationType.TEMPORAL_ORDERED


@dataclass(frozen=True, slots=True)
class Counted:
    """A rule whose events are counted."""

    key: str
    title: str
    source: LogSource
    condition: Condition


@dataclass(frozen=True, slots=True)
class Correlation:
    """What is counted, and how. ``by``: Sigma's names of the fields that must be the same."""

    type: SigmaCorrelationType
    seconds: int
    count: int
    by: Sequence[str]
    distinct: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Alert:
    """What is common to the composites of one rule of Sigma. ``make`` gives a rule with its id, level and texts."""

    key: str
    number: Callable[[str], int]
    make: Callable[..., XmlRule]


def correlation_of(rule: SigmaCorrelationRule) -> Correlation:
    """Raises Untranslatable."""
    if rule.type not in (_EVENTS, _VALUES, _TEMPORAL, _ORDERED):
        raise Untranslatable(f"a correlation of the type {rule.type.name.lower()}")
    if list(rule.aliases):
        raise Untranslatable("a correlation with aliases of fields")
    if not isinstance(rule.condition, SigmaCorrelationCondition):
        raise Untranslatable("a correlation whose condition names rules")
    count = _least(rule.condition.op, rule.condition.count)
    field = rule.condition.fieldref
    distinct = [field] if isinstance(field, str) else list(field or ())
    if (rule.type is _VALUES) is not bool(distinct):
        raise Untranslatable("a count of values without a field, or a field without a count of values")
    rules = len(rule.rules or ())
    if rule.type in (_TEMPORAL, _ORDERED) and count != rules:
        raise Untranslatable(f"a correlation in time of {count} of {rules} rules")
    return Correlation(rule.type, _seconds(rule.timespan), count, tuple(rule.group_by or ()), tuple(distinct))


def aggregation_of(condition: str, timeframe: str | None) -> tuple[str, Correlation] | None:
    """The condition in front of ``| count() by ... > n`` and the count; None: it has none. Raises Untranslatable."""
    if "|" not in condition:
        return None
    found = _AGGREGATION.fullmatch(condition)
    if found is None:
        raise Untranslatable(f"an aggregation other than count: {condition.partition('|')[2].strip()[:80]!r}")
    if timeframe is None:
        raise Untranslatable("a count without a timeframe")
    operators = {">": SigmaCorrelationConditionOperator.GT, ">=": SigmaCorrelationConditionOperator.GTE}
    if found["operator"] not in operators:
        raise Untranslatable(f"a count that is {found['operator']} a number")
    by = tuple(one.strip() for one in (found["by"] or "").split(",") if one.strip())
    count = _least(operators[found["operator"]], int(found["count"]))
    kind = _VALUES if found["field"] else _EVENTS
    try:
        span = SigmaCorrelationTimespan(str(timeframe))
    except SigmaTimespanError as error:
        raise Untranslatable(str(error)) from None
    return found["condition"].strip(), Correlation(
        kind, _seconds(span), count, by, (found["field"],) if found["field"] else ()
    )


def rules_of(correlation: Correlation, counted: Sequence[Counted], alert: Alert) -> list[XmlRule]:
    """The rules that select what is counted, and the composites. Raises Untranslatable."""
    if correlation.type in (_TEMPORAL, _ORDERED):
        return _in_time(correlation, counted, alert)
    by_source: dict[str, list[Counted]] = {}
    for one in counted:
        by_source.setdefault(one.source.name, []).append(one)
    group = f"sigma_events_{alert.number(alert.key)}"
    bases = [
        _base(alert, f"{HELPER}{alert.key} events {name}", some[0].source, any_of(one.condition for one in some), group)
        for name, some in by_source.items()
    ]
    select = f"<if_matched_group>,{group},</if_matched_group>"
    if len(bases) == 1:
        select = f"<if_matched_sid>{bases[0].id}</if_matched_sid>"
    distinct = [f"<distinct_field>{name}</distinct_field>" for name in _fields(correlation.distinct, counted)]
    body = [select, "<global_frequency/>", *_same(correlation, counted), *distinct]
    attributes = f' frequency="{correlation.count}" timeframe="{correlation.seconds}"'
    return [*bases, alert.make(alert.number(alert.key), ALWAYS, attributes=attributes, body=body)]


def _in_time(correlation: Correlation, counted: Sequence[Counted], alert: Alert) -> list[XmlRule]:
    """A composite for each rule that may come last; in a given order only one may."""
    if len({one.key for one in counted}) < len(counted):
        raise Untranslatable("a correlation that names a rule twice")
    bases = [_base(alert, f"{HELPER}{alert.key} event {one.key}", one.source, one.condition) for one in counted]
    ordered = correlation.type is _ORDERED
    made = []
    for at, last in enumerate(bases):
        if ordered and last is not bases[-1]:
            continue
        others = ",".join(str(one.id) for one in bases if one is not last)
        ordered_ = ' ordered="yes"' if ordered else ""
        body = [f"<if_matched_all{ordered_}>{others}</if_matched_all>", "<global_frequency/>"]
        key = alert.key if last is bases[-1] else f"{HELPER}{alert.key} last {counted[at].key}"
        made.append(
            alert.make(
                alert.number(key),
                ALWAYS,
                parent=last.id,
                attributes=f' timeframe="{correlation.seconds}"',
                body=[*body, *_same(correlation, counted)],
            )
        )
    return [*bases, *made]


def _base(alert: Alert, key: str, source: LogSource, condition: Condition, group: str = "") -> XmlRule:
    return XmlRule(
        id=alert.number(key),
        level=1,
        attributes=' side_tree="yes"',
        condition=all_of((source.events, condition)),
        body=["<options>no_log</options>"],
        description=f"Sigma: an event that a correlation counts ({source.name}).",
        groups=[group] if group else [],
    )


def _same(correlation: Correlation, counted: Sequence[Counted]) -> list[str]:
    return [f"<same_field>{name}</same_field>" for name in _fields(correlation.by, counted)]


def _fields(names: Sequence[str], counted: Sequence[Counted]) -> list[str]:
    """Our names of fields, which must be the same in all log sources."""
    made = []
    for name in names:
        found = {one.source.target(name) for one in counted}
        if len(found) > 1:
            raise Untranslatable(f"the field {name!r} of a correlation is another one in each log source")
        (target,) = found
        if " " in target or target == "match":
            raise Untranslatable(f"the field {name!r} cannot be compared between events")
        made.append(target)
    return made


def _least(operator: SigmaCorrelationConditionOperator, count: float) -> int:
    """The number of events from which a count holds."""
    if operator not in (SigmaCorrelationConditionOperator.GT, SigmaCorrelationConditionOperator.GTE):
        raise Untranslatable(f"a count that is {operator.name.lower()} a number")
    least = int(count) + (operator is SigmaCorrelationConditionOperator.GT or count != int(count))
    if not 2 <= least <= MAX_EVENTS:
        raise Untranslatable(f"a count of {least} events")
    return least


def _seconds(span: SigmaCorrelationTimespan) -> int:
    if not 1 <= span.seconds <= MAX_SECONDS:
        raise Untranslatable(f"a time span of {span.spec}, more than {MAX_SECONDS} seconds")
    return span.seconds
