"""The rule language: properties, bounds, and who is granted what."""

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.security.rbac.context_rules import (
    MAX_CONTEXT_VALUES,
    MAX_PATTERN_CHARACTERS,
    MAX_RULE_DEPTH,
    MAX_RULE_VALUES,
    IndexedContext,
    InvalidRule,
    compile_rule,
    evaluate,
    roles_for,
)
from secmon.security.rbac.defaults import load_defaults
from secmon.security.rbac.model import Role, Rule, User
from secmon.security.rbac.values import Budget, BudgetExceeded, ScalarOperand, match_all

CONTEXT: dict[str, Any] = {"name": "mira", "auth": {"site": "41", "teams": ["ops", "blue"], "none": None}}

_words = st.sampled_from(["", "a", "ab", "ops", "1", "r'a'", "r'^a.*$'", "r'('", "r'(?!a)b'", "r''", "\ud800"])
_scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.5]) | _words
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)
_objects = st.dictionaries(_words, _values, max_size=4)
_searches = st.builds(
    lambda name, operand: {name: operand}, st.sampled_from(["MATCH", "MATCH$", "FIND", "FIND$"]), _objects
)
_expressions = st.recursive(
    _searches,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"AND": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda parts: {"OR": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda part: {"NOT": part}, inner),
    ),
    max_leaves=6,
)
_operators = st.sampled_from(["MATCH", "MATCH$", "FIND", "FIND$", "AND", "OR", "NOT", "XOR", "", "and"])
_anything = st.recursive(
    _values,
    lambda inner: st.dictionaries(_operators, inner, max_size=2) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(rule=_anything, context=_objects)
@settings(max_examples=200)
def test_nothing_crashes_and_the_answer_is_a_boolean(rule: object, context: dict[str, Any]) -> None:
    assert evaluate(rule, context) in (True, False)


def _valid(rule: object) -> bool:
    try:
        compile_rule(rule)
    except InvalidRule:
        return False
    return True


@given(parts=st.lists(_expressions, max_size=4), context=_objects)
@settings(max_examples=200)
def test_and_or_not_have_the_semantics_of_python(parts: list[object], context: dict[str, Any]) -> None:
    whole = all(_valid(part) for part in parts)
    verdicts = [evaluate(part, context) for part in parts]
    assert evaluate({"AND": parts}, context) is (whole and all(verdicts))
    assert evaluate({"OR": parts}, context) is (whole and any(verdicts))
    assert evaluate({"NOT": parts}, context) is (whole and not all(verdicts))
    for part, verdict in zip(parts, verdicts, strict=True):
        assert evaluate({"NOT": part}, context) is (_valid(part) and not verdict)
        assert evaluate({"NOT": {"NOT": part}}, context) is verdict


@given(operand=_objects, context=_objects)
@settings(max_examples=200)
def test_strict_implies_partial_and_match_implies_find(operand: dict[str, Any], context: dict[str, Any]) -> None:
    def holds(operator: str) -> bool:
        return evaluate({operator: operand}, context)

    assert holds("MATCH") or not holds("MATCH$")
    assert holds("FIND") or not holds("FIND$")
    assert holds("FIND") or not holds("MATCH")
    assert holds("FIND$") or not holds("MATCH$")


@given(operand=_objects, context=_objects)
@settings(max_examples=200)
def test_find_is_match_on_some_object(operand: dict[str, Any], context: dict[str, Any]) -> None:
    anywhere = any(evaluate({"MATCH": operand}, one) for one in IndexedContext(context).objects)
    assert evaluate({"FIND": operand}, context) is anywhere


@given(rule=_expressions, context=_objects, steps=st.integers(0, 40))
@settings(max_examples=200)
def test_no_evaluation_exceeds_its_steps(rule: object, context: dict[str, Any], steps: int) -> None:
    """With too few it is false, with enough it is what it is without a bound."""
    if not _valid(rule):
        return
    budget = Budget(steps)
    try:
        verdict = compile_rule(rule)(IndexedContext(context), budget)
    except BudgetExceeded:
        assert evaluate(rule, context, steps=steps) is False
    else:
        assert verdict is evaluate(rule, context, steps=steps) is evaluate(rule, context)
        taken = steps - budget.steps
        assert verdict is evaluate(rule, context, steps=taken)
        if taken:
            with pytest.raises(BudgetExceeded):
                compile_rule(rule)(IndexedContext(context), Budget(taken - 1))


@given(st.lists(st.sets(st.integers(0, 4)), max_size=5))
@settings(max_examples=200)
def test_strict_lists_are_matched_in_pairs(accepting: list[set[int]]) -> None:
    """The same answer as trying every order."""

    class Taker:
        def __init__(self, numbers: set[int]) -> None:
            self.numbers = numbers

        def equals(self, found: Any, budget: Budget) -> bool:
            budget.spend()
            return found in self.numbers

        meets = equals

    found = list(range(len(accepting)))
    possible = any(
        all(one in numbers for one, numbers in zip(order, accepting, strict=True)) for order in permutations(found)
    )
    assert match_all([Taker(numbers) for numbers in accepting], found, Budget(10_000)) is possible


@pytest.mark.parametrize(
    ("operand", "found", "strict", "holds"),
    [
        (["r'^o'", "ops"], ["ops", "oak"], True, True),  # the pattern must leave "ops" to the literal
        (["ops", "r'^o'"], ["ops", "blue"], True, False),
        ([{"nick": "leo"}], [{"nick": "leo", "skills": []}], True, True),
        ([{"nick": "leo"}], [{"nick": "ana"}], False, False),
        ([["a"]], [["a", "b"]], False, True),
        ([["a"]], [["a", "b"]], True, False),
        ([], ["a"], False, True),
        ([], ["a"], True, False),
        ([None], [None, 1], False, True),
        ([1], [True], False, False),
        ([1], [1.0], True, True),
    ],
)
def test_lists(operand: list[Any], found: list[Any], strict: bool, holds: bool) -> None:
    assert evaluate({"MATCH$" if strict else "MATCH": {"k": operand}}, {"k": found}) is holds


def test_null_members_count_as_absent() -> None:
    for rule in ({"FIND": {"none": None}}, {"FIND": {"r'^none$'": None}}, {"MATCH": {"name": None}}):
        assert evaluate(rule, CONTEXT) is False
        assert evaluate({"NOT": rule}, CONTEXT) is True


@pytest.mark.parametrize(
    "rule",
    [
        None, 1, "MATCH", [[]], {}, {"name": "mira"}, {"MATCH": {}, "FIND": {}}, {"MATCH": []}, {"FIND": "mira"},
        {"AND": None}, {"OR": [["MATCH"]]}, {"NOT": "x"}, {"match": {}}, {"MATCH": {"name": "r'(?!x)'"}},
        {"MATCH": {"r'(a)\\1'": "x"}}, {"FIND": {"name": "r'" + "a" * 2000 + "'"}},
    ],
    ids=repr,
)  # fmt: skip
def test_a_malformed_rule_is_false_in_every_context(rule: object) -> None:
    true: dict[str, Any] = {"MATCH": {}}
    for whole in (rule, {"NOT": rule}, {"OR": [true, rule]}, {"OR": [true, {"NOT": rule}]}, {"NOT": {"AND": [rule]}}):
        assert evaluate(whole, CONTEXT) is False


def _nested(levels: int) -> object:
    rule: object = {"MATCH": {}}
    for _ in range(levels):
        rule = {"NOT": {"NOT": rule}}
    return rule


def test_depth_and_size_of_rules_are_bounded() -> None:
    assert evaluate(_nested(MAX_RULE_DEPTH // 2 - 1), CONTEXT) is True
    assert evaluate(_nested(MAX_RULE_DEPTH), CONTEXT) is False
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert evaluate({"MATCH": deep}, deep) is False
    assert evaluate({"OR": [{"MATCH": {}}] * (MAX_RULE_VALUES + 1)}, CONTEXT) is False
    patterns = [f"r'{'a' * 500}{n}'" for n in range(MAX_PATTERN_CHARACTERS // 500 + 1)]
    assert evaluate({"NOT": {"FIND": {"name": patterns}}}, CONTEXT) is False


def test_a_context_may_be_deep_but_not_huge() -> None:
    deep: dict[str, Any] = {"secret": "deep"}
    for n in range(20_000):
        deep = {"a": deep} if n % 2 else {"a": [[deep]]}
    assert evaluate({"FIND": {"secret": "deep"}}, deep) is True
    assert evaluate({"MATCH": {}}, {"a": [0] * MAX_CONTEXT_VALUES}) is False


def test_costs_are_charged_for_lists_and_patterns() -> None:
    many = {"k": [str(n) for n in range(1_000)]}
    for rule in ({"MATCH": {"k": ["none"]}}, {"MATCH$": {"k": ["x"] * 1_000}}, {"MATCH": {"k": "r'x'"}}):
        assert evaluate({"NOT": rule}, many, steps=999) is False
    budget = Budget(1_000_000)
    assert evaluate({"MATCH": {"k": "r'(a{50}){20}x'"}}, {"k": "a" * 1_000_000}, steps=1_000) is False
    assert ScalarOperand("a", strict=False).equals("a", budget)
    assert budget.steps == 999_999


# Who is granted what


def _user(number: int, *roles: int) -> User:
    return User(number, f"user{number}", "", True, roles)


def _given(*rules: object, first: int = 100) -> tuple[Mapping[int, Rule], Mapping[int, Role]]:
    """Rules with ids from ``first``, each with the role of its own id."""
    known: Any = {first + n: Rule(first + n, f"rule{n}", rule) for n, rule in enumerate(rules)}  # type: ignore[arg-type]
    return known, {number: Role(number, f"role{number}", (), (number,)) for number in known}


def test_roles_are_ascending_and_unique() -> None:
    rules, _ = _given({"MATCH": {}}, {"FIND": {"site": "41"}}, {"FIND": {"site": "0"}})
    roles = {
        107: Role(107, "last", (), (100,)),
        103: Role(103, "both", (), (100, 101)),
        105: Role(105, "one of two", (), (101, 102)),
        104: Role(104, "no rule holds", (), (102,)),
        106: Role(106, "no rules", (), ()),
        108: Role(108, "a rule that is gone", (), (999,)),
    }
    assert roles_for(rules, roles, CONTEXT, _user(100, 104, 106)).roles == (103, 105, 107)


@pytest.mark.parametrize("context", [{"username": "elastic"}, {"acct": {"user_name": "admin"}}])
@pytest.mark.parametrize(("user", "granted"), [(2, (1,)), (1, ()), (3, ()), (99, ()), (100, ())])
def test_default_rules_are_for_the_dashboard_user(context: dict[str, Any], user: int, granted: tuple[int, ...]) -> None:
    defaults = load_defaults()
    rules = {rule.id: Rule(rule.id, rule.name, rule.rule) for rule in defaults.rules}
    roles = {role.id: Role(role.id, role.name, role.policies, role.rules) for role in defaults.roles}
    assert roles_for(rules, roles, context, _user(user)).roles == granted


def test_reserved_rules_end_at_99() -> None:
    rules, roles = _given({"MATCH": {}}, {"MATCH": {}}, first=99)
    assert roles_for(rules, roles, {}, _user(1)).roles == (100,)
    assert roles_for(rules, roles, {}, _user(2)).roles == (99, 100)


def test_a_bad_rule_affects_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    search = {"FIND": {"k": [str(n) for n in range(50)]}}
    context = {"k": ["x"] * 1_000}
    rules, roles = _given({"NOT": {"XOR": []}}, {"NOT": search}, {"MATCH": {}})
    assert roles_for(rules, roles, context, _user(100), rule_steps=100).roles == (102,)
    assert "security rule 100 (rule0) is invalid, it is never true: 'XOR' is no operator" in caplog.text
    assert "security rule 101 (rule1): context of 'user100' takes too many steps" in caplog.text
    assert roles_for(rules, roles, context, _user(100)).roles == (101, 102)


def test_the_rules_of_a_login_share_a_bound() -> None:
    spender = {"NOT": {"FIND": {"k": "none"}}}
    rules, roles = _given(spender, spender, spender)
    context = {"k": ["x"] * 100}
    assert roles_for(rules, roles, context, _user(100), login_steps=150).roles == (100,)
    assert roles_for(rules, roles, context, _user(100), login_steps=250).roles == (100, 101)
    assert roles_for(rules, roles, context, _user(100)).roles == (100, 101, 102)


def test_a_huge_context_gets_no_role(caplog: pytest.LogCaptureFixture) -> None:
    rules, roles = _given({"MATCH": {}})
    assert roles_for(rules, roles, {"k": [0] * MAX_CONTEXT_VALUES}, _user(100)).roles == ()
    assert f"context of more than {MAX_CONTEXT_VALUES} values" in caplog.text
