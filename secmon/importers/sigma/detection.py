"""The detection of a Sigma rule, as pySigma parses it, as one condition of ours."""

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionItem,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.rule import SigmaRule
from sigma.types import SigmaFieldReference, SigmaString

from secmon.importers.sigma.conditions import Condition, all_of, any_of, none_of
from secmon.importers.sigma.mapping import LogSource
from secmon.importers.sigma.values import Untranslatable, condition_of, keyword_of

Parsed = ConditionItem | ConditionFieldEqualsValueExpression | ConditionValueExpression


def detection_of(rule: SigmaRule, source: LogSource) -> Condition:
    """The condition of a rule on the events of its log source. Raises Untranslatable, SigmaError."""
    return any_of(_condition(one.parsed, source) for one in rule.detection.parsed_condition)


def _condition(parsed: object, source: LogSource) -> Condition:
    match parsed:
        case ConditionAND():
            return all_of(_condition(one, source) for one in parsed.args)
        case ConditionOR():
            return any_of(_condition(one, source) for one in parsed.args)
        case ConditionNOT():
            return none_of(_condition(parsed.args[0], source))
        case ConditionFieldEqualsValueExpression():
            return _field(parsed, source)
        case ConditionValueExpression():
            return keyword_of(parsed.value, source.make_keyword())
    raise Untranslatable(f"its condition has a part of the kind {type(parsed).__name__}")


def _field(parsed: ConditionFieldEqualsValueExpression, source: LogSource) -> Condition:
    make, value = source.make(parsed.field), parsed.value
    if isinstance(value, SigmaFieldReference):
        starts = value.starts_with or not value.ends_with
        ends = value.ends_with or not value.starts_with
        anywhere = value.starts_with and value.ends_with
        name = source.target(value.field)
        anchored = name if anywhere else f"{'^' if starts else ''}{name}{'$' if ends else ''}"
        return make("reference", anchored.encode())
    if source.dash_is_absent and isinstance(value, SigmaString) and list(value.s) == ["-"]:
        return any_of((none_of(make("pcre2", b".")), make("osmatch", b"^-$")))
    return condition_of(value, make)
