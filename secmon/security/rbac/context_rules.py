"""Authorization-context rules: which roles a run_as login is granted (rbac.md 10.2).

A rule is compiled into an expression, which is evaluated on a context. Both are bounded: a rule that is malformed, too
large or too deep, or whose evaluation takes too many steps, is false as a whole, also below NOT or OR (rbac.md 10.3 j
and k).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from secmon.security.rbac.model import RESERVED_ID_MAX, Role, Rule, User
from secmon.security.rbac.patterns import Pattern, UnsupportedPattern, parse_pattern
from secmon.security.rbac.values import Budget, BudgetExceeded, ListOperand, ObjectOperand, Operand, ScalarOperand

log = logging.getLogger("secmon.rbac")

DASHBOARD_USER_ID = 2
"""The only user to whom the default rules can grant roles (rbac.md 4)."""

MAX_RULE_DEPTH = 64
MAX_RULE_VALUES = 5_000
MAX_PATTERN_CHARACTERS = 10_000
"""Of all patterns of a rule together: compiling takes up to 25 microseconds a character."""
MAX_CONTEXT_VALUES = 50_000
RULE_STEPS = 250_000
"""Steps that one rule may take on one context."""
LOGIN_STEPS = 2_000_000
"""Steps that all rules of one login may take."""


class Granted(NamedTuple):
    """Roles that a login has, in their order, and the rules that hold for its context."""

    roles: tuple[int, ...]
    rules: frozenset[int] = frozenset()


class InvalidRule(ValueError):
    """A rule that is no expression of the language."""


class IndexedContext:
    """A context, and all objects in it, those in lists included, by the names of their members.

    Raises :class:`BudgetExceeded` for more than ``MAX_CONTEXT_VALUES`` values.
    """

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.root = context
        self.objects: list[Mapping[str, Any]] = []
        self._holders: dict[str, list[Mapping[str, Any]]] = {}
        size = Budget(MAX_CONTEXT_VALUES)
        left: list[Any] = [context]
        while left:
            one = left.pop()
            if isinstance(one, dict):
                self.objects.append(one)
                for name in one:
                    self._holders.setdefault(name, []).append(one)
                inner: Sequence[Any] = list(one.values())
            else:
                inner = one
            size.spend(len(inner))
            left.extend(value for value in inner if isinstance(value, dict | list))

    def with_names(self, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """The objects that may have members of all these names."""
        return min((self._holders.get(name, ()) for name in names), key=len, default=self.objects)


Expression = Callable[[IndexedContext, Budget], bool]


def compile_rule(rule: object) -> Expression:
    """Compile ``rule``, a decoded JSON value. Raises :class:`InvalidRule`."""
    try:
        return _Compiler().expression(rule, MAX_RULE_DEPTH)
    except UnsupportedPattern as error:
        raise InvalidRule(str(error)) from error


def evaluate(rule: object, context: Mapping[str, Any], *, steps: int = RULE_STEPS) -> bool:
    """Whether ``rule`` holds for ``context``; False for an invalid rule, and when ``steps`` do not suffice."""
    try:
        return compile_rule(rule)(IndexedContext(context), Budget(steps))
    except (InvalidRule, BudgetExceeded):
        return False


def roles_for(
    rules: Mapping[int, Rule],
    roles: Mapping[int, Role],
    context: Mapping[str, Any],
    user: User,
    *,
    rule_steps: int = RULE_STEPS,
    login_steps: int = LOGIN_STEPS,
) -> Granted:
    """The roles, ascending, that have a rule which holds for ``context`` (rbac.md 10.1, step 4).

    Default rules hold for the dashboard service user only. The user's own roles are not added. Takes up to about two
    seconds for a hostile context: call it in a thread. Rules that cannot be evaluated are logged, and do not hold.
    """
    try:
        facts = IndexedContext(context)
    except BudgetExceeded:
        log.warning(
            "run_as login of %r: context of more than %d values, no rule is true", user.username, MAX_CONTEXT_VALUES
        )
        return Granted(())
    left = login_steps
    true = set[int]()
    for number in sorted({number for role in roles.values() for number in role.rules if number in rules}):
        if number > RESERVED_ID_MAX or user.id == DASHBOARD_USER_ID:
            budget = Budget(min(rule_steps, left))
            if _rule_holds(rules[number], facts, budget, user):
                true.add(number)
            left = left - min(rule_steps, left) + max(budget.steps, 0)
    given = sorted(role.id for role in roles.values() if not true.isdisjoint(role.rules))
    return Granted(tuple(given), frozenset(true))


def _rule_holds(rule: Rule, facts: IndexedContext, budget: Budget, user: User) -> bool:
    try:
        return compile_rule(rule.rule)(facts, budget)
    except InvalidRule as error:
        log.warning("security rule %d (%s) is invalid, it is never true: %s", rule.id, rule.name, error)
    except BudgetExceeded:
        log.warning("security rule %d (%s): context of %r takes too many steps", rule.id, rule.name, user.username)
    return False


class _Compiler:
    """Turns one rule into its expression; counts values and depth on the way."""

    def __init__(self) -> None:
        self._values = 0
        self._pattern_characters = 0
        self._operators: dict[str, Callable[[Any, int], Expression]] = {
            "MATCH": lambda operand, depth: self._match(operand, depth, strict=False),
            "MATCH$": lambda operand, depth: self._match(operand, depth, strict=True),
            "FIND": lambda operand, depth: self._find(operand, depth, strict=False),
            "FIND$": lambda operand, depth: self._find(operand, depth, strict=True),
            "AND": self._and,
            "OR": self._or,
            "NOT": self._not,
        }

    def expression(self, node: object, depth: int) -> Expression:
        """An object with exactly one member, whose name is an operator."""
        self._count(depth)
        if not isinstance(node, dict) or len(node) != 1:
            raise InvalidRule("an expression is an object with one operator")
        ((name, operand),) = node.items()
        if name not in self._operators:
            raise InvalidRule(f"{name!r} is no operator")
        return self._operators[name](operand, depth - 1)

    def _match(self, operand: Any, depth: int, *, strict: bool) -> Expression:
        shape = self._shape(operand, depth, strict=strict)
        return lambda facts, budget: shape.meets(facts.root, budget)

    def _find(self, operand: Any, depth: int, *, strict: bool) -> Expression:
        shape = self._shape(operand, depth, strict=strict)
        names = shape.names
        return lambda facts, budget: any(shape.meets(one, budget) for one in facts.with_names(names))

    def _and(self, operand: Any, depth: int) -> Expression:
        parts = self._expressions(operand, depth)
        return lambda facts, budget: all(part(facts, budget) for part in parts)

    def _or(self, operand: Any, depth: int) -> Expression:
        parts = self._expressions(operand, depth)
        return lambda facts, budget: any(part(facts, budget) for part in parts)

    def _not(self, operand: Any, depth: int) -> Expression:
        both = self._and(operand, depth)  # of an array: false exactly when all are true
        return lambda facts, budget: not both(facts, budget)

    def _expressions(self, operand: Any, depth: int) -> list[Expression]:
        """An array of expressions; a single expression means an array of one."""
        nodes = operand if isinstance(operand, list) else [operand]
        return [self.expression(node, depth) for node in nodes]

    def _shape(self, operand: Any, depth: int, *, strict: bool) -> ObjectOperand:
        self._count(depth)
        if not isinstance(operand, dict):
            raise InvalidRule("MATCH and FIND take an object")
        return ObjectOperand(
            [(self._text(name), self._value(value, depth - 1, strict)) for name, value in operand.items()]
        )

    def _value(self, value: Any, depth: int, strict: bool) -> Operand:
        if isinstance(value, dict):
            return self._shape(value, depth, strict=strict)
        self._count(depth)
        if isinstance(value, list):
            return ListOperand([self._value(one, depth - 1, strict) for one in value], strict=strict)
        return ScalarOperand(self._text(value) if isinstance(value, str) else value, strict=strict)

    def _text(self, text: str) -> str | Pattern:
        pattern = parse_pattern(text)
        if pattern is None:
            return text
        self._pattern_characters += len(text)
        if self._pattern_characters > MAX_PATTERN_CHARACTERS:
            raise InvalidRule(f"patterns of more than {MAX_PATTERN_CHARACTERS} characters in total")
        return pattern

    def _count(self, depth: int) -> None:
        self._values += 1
        if depth < 0:
            raise InvalidRule(f"nested deeper than {MAX_RULE_DEPTH}")
        if self._values > MAX_RULE_VALUES:
            raise InvalidRule(f"of more than {MAX_RULE_VALUES} values")
