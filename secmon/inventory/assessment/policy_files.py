"""Files of assessment policies, which agents read: what is wrong with them.

The format is the public one: ``policy``, ``variables``, ``requirements`` and ``checks``, as docs/assess-hosts.md shows.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from secmon.common.errors import ConfigError, judged
from secmon.config.yaml import read_yaml
from secmon.inventory.assessment.policy_rules import CompileRegex, Dialect, RuleError, check_rule

Text = Annotated[str, Meta(min_length=1)]
PolicyId = Annotated[str, Meta(pattern=r"^[^\0,:\s]{1,255}$")]
CheckId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Rules = Annotated[list[str], Meta(min_length=1)]
Condition = Literal["all", "any", "none"]


class PolicyHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a policy is: its id, the name of its file, and its texts. ``regex_type``: the language of its patterns."""

    id: PolicyId
    file: Text
    name: Text
    description: Text
    references: list[Text] = []
    regex_type: Dialect = "osregex"


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a host is assessed."""

    title: Text
    condition: Condition
    rules: Rules
    description: str = ""


class PolicyCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check. ``compliance``: its requirements by standard."""

    id: CheckId
    title: Text
    condition: Condition
    rules: Rules
    description: str = ""
    rationale: str = ""
    impact: str = ""
    remediation: str = ""
    compliance: list[dict[str, list[Text]]] = []
    references: list[Text] = []
    regex_type: Dialect | None = None


class PolicyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file. ``variables``: texts by name, which begin with ``$`` and are replaced in rules."""

    policy: PolicyHead
    checks: Annotated[list[PolicyCheck], Meta(min_length=1)]
    requirements: Requirements | None = None
    variables: dict[Annotated[str, Meta(pattern=r"^\$\w+$")], Text] = {}


class Fault(NamedTuple):
    """Something wrong in a file; ``place`` is empty when it concerns the whole file."""

    file: str
    place: str
    problem: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


def read_policy(data: bytes, file: str) -> PolicyFile:
    """The policy in ``data``. Raises ValueError for the first thing that does not fit the format."""
    try:
        return msgspec.convert(read_yaml(data, file, code=1908, texts=True), PolicyFile, strict=False)
    except ConfigError as error:
        raise ValueError(f"{error.key}: {judged(error.value, error.allowed)}") from None


def check_policies(files: Mapping[str, bytes], compile_regex: CompileRegex) -> Iterator[Fault]:
    """What is wrong with files, by path. Ids are compared over all of them: an agent may have them all.

    ``compile_regex``: raises ValueError for a pattern that is none.
    """
    policies: dict[str, str] = {}
    checks: dict[int, str] = {}
    for path, data in files.items():
        try:
            found = read_policy(data, path)
        except ValueError as error:
            yield Fault(path, "", str(error))
            continue
        name = PurePath(path).name
        if found.policy.file != name:
            yield Fault(path, "policy", f"it says that its file is {found.policy.file}, not {name}")
        if (other := policies.setdefault(found.policy.id, path)) != path:
            yield Fault(path, "policy", f"{other} has its id {found.policy.id} too")
        for check in found.checks:
            if check.id in checks:
                yield Fault(path, f"check {check.id}", f"a check of {checks[check.id]} has its id too")
            checks.setdefault(check.id, path)
        yield from (Fault(path, place, problem) for place, problem in _wrong_rules(found, compile_regex))


def _wrong_rules(found: PolicyFile, compile_regex: CompileRegex) -> Iterator[tuple[str, str]]:
    """Place and problem of each."""
    dialect = found.policy.regex_type
    groups = [(f"check {check.id}", check.rules, check.regex_type or dialect) for check in found.checks]
    if found.requirements is not None:
        groups.append(("requirements", found.requirements.rules, dialect))
    longest_first = sorted(found.variables.items(), key=lambda item: -len(item[0]))
    for place, rules, language in groups:
        for rule in rules:
            try:
                check_rule(_replaced(rule, longest_first), partial(compile_regex, language))
            except RuleError as error:
                yield place, f"rule {rule!r}: {error}"


def _replaced(rule: str, variables: Iterable[tuple[str, str]]) -> str:
    for name, value in variables:
        rule = rule.replace(name, value)
    return rule
