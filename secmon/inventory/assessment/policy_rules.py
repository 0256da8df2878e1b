"""The language of the rules of assessment policies.

::

    rule     = ["not "] kind ":" target [" -> " [file " -> "] content]
    kind     = "f" (files) | "d" (a folder) | "p" (a process) | "c" (a command) | "r" (a key of the registry)
    content  = test {" && " test}
    test     = ["!"] ("r:" pattern | "n:" pattern " compare " operator number | text)

Before its content, a folder has the name of a file or ``r:`` and a pattern of names; a key of the registry a value.
"""

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

Dialect = Literal["osregex", "pcre2"]
CompileRegex: TypeAlias = Callable[[Dialect, bytes], object]

_RULE = re.compile(r"(?:not\s+)?(?P<kind>[fdpcr]):(?P<rest>.*)", re.DOTALL)
_NUMERIC = re.compile(r"(?P<pattern>.*) compare (?P<operator><=?|>=?|==|!=) -?[0-9]+", re.DOTALL)
_PARTS = {"f": (1, 2), "d": (1, 3), "p": (1, 1), "c": (2, 2), "r": (1, 3)}
"""Fewest and most parts between arrows."""
_CONTENT = {"f": 1, "d": 2, "c": 1, "r": 2}
"""Index of the part that is a content."""


class RuleError(ValueError):
    """The text is no rule; the text of the error says why."""


def check_rule(rule: str, compile_regex: Callable[[bytes], object]) -> None:
    """Check a rule. ``compile_regex`` raises ValueError for a pattern that is none. Raises RuleError."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise RuleError("it does not begin with f:, d:, p:, c: or r:, or with 'not' before one of these")
    kind = found["kind"]
    parts = found["rest"].split(" -> ")
    least, most = _PARTS[kind]
    if not least <= len(parts) <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        raise RuleError(f"it has {len(parts)} parts between arrows, not {allowed}")
    if any(part != part.strip() or not part for part in parts):
        raise RuleError("a part is empty, or has a blank at its end")
    if kind in "fd":
        _check_paths(parts[0])
    if kind == "d" and len(parts) > 1 and parts[1].startswith("r:"):
        _check_pattern(parts[1][2:], compile_regex)
    for test in parts[_CONTENT[kind]].split(" && ") if len(parts) > _CONTENT.get(kind, most) else ():
        _check_test(test.removeprefix("!"), compile_regex)


def _check_paths(paths: str) -> None:
    for path in paths.split(","):
        if not re.match(r"/|[A-Za-z]:\\|%\w+%", path):
            raise RuleError(f"{path!r} is no path from the root")


def _check_test(test: str, compile_regex: Callable[[bytes], object]) -> None:
    if not test.strip():
        raise RuleError("a test is empty")
    if test.startswith("r:"):
        _check_pattern(test[2:], compile_regex)
    elif test.startswith("n:"):
        numeric = _NUMERIC.fullmatch(test[2:])
        if numeric is None:
            raise RuleError("a numeric test is 'n:PATTERN compare OPERATOR NUMBER'")
        if "(" not in numeric["pattern"]:
            raise RuleError("the pattern of a numeric test has no group")
        _check_pattern(numeric["pattern"], compile_regex)


def _check_pattern(pattern: str, compile_regex: Callable[[bytes], object]) -> None:
    if not pattern:
        raise RuleError("a pattern is empty")
    try:
        compile_regex(pattern.encode())
    except ValueError as error:
        raise RuleError(f"{pattern!r} is no pattern: {error}") from None
