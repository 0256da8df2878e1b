"""What an agent finds by the rules of a policy, on a host that a test describes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from secmon.engine.matching.expression import compile_expression
from secmon.inventory.assessment.policy_files import PolicyFile

COMPARE = re.compile(r"n:(?P<pattern>.*) compare (?P<operator>\S+) (?P<number>-?\d+)")


@dataclass(frozen=True)
class Host:
    """Files, outputs of commands, and running processes. A key of the registry is a file with lines ``value=data``."""

    files: Mapping[str, str]
    commands: Mapping[str, str] = field(default_factory=dict)
    processes: frozenset[str] = frozenset()


def evaluated(policy: PolicyFile, host: Host) -> dict[str, bool]:
    """Whether each check passes, by its title. The case that something does not exist counts as a rule not met."""
    return {
        check.title: _combined(check.condition, [_met(_named(rule, policy.variables), host) for rule in check.rules])
        for check in policy.checks
    }


def applies(policy: PolicyFile, host: Host) -> bool:
    """Whether the host is assessed."""
    required = policy.requirements
    if required is None:
        return True
    return _combined(required.condition, [_met(_named(rule, policy.variables), host) for rule in required.rules])


def _named(rule: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        rule = rule.replace(name, value)
    return rule


def _combined(condition: str, results: list[bool]) -> bool:
    return {"all": all(results), "any": any(results), "none": not any(results)}[condition]


def _met(rule: str, host: Host) -> bool:
    negated = rule.startswith("not ")
    kind, _, rest = rule.removeprefix("not ").partition(":")
    target, *parts = rest.split(" -> ")
    found = {"f": _files, "d": _folder, "p": _process, "c": _command, "r": _registry}[kind](host, target, parts)
    return found != negated


def _files(host: Host, target: str, parts: list[str]) -> bool:
    texts = [host.files[path] for path in target.split(",") if path in host.files]
    return _contain(texts, parts)


def _folder(host: Host, target: str, parts: list[str]) -> bool:
    inside = {path: text for path, text in host.files.items() if path.startswith(f"{target}/")}
    if parts:
        inside = {path: text for path, text in inside.items() if _test(parts[0], PurePosixPath(path).name)}
    return _contain(inside.values(), parts[1:])


def _process(host: Host, target: str, parts: list[str]) -> bool:
    return target in host.processes


def _command(host: Host, target: str, parts: list[str]) -> bool:
    return _contain([host.commands.get(target, "")], parts)


def _registry(host: Host, target: str, parts: list[str]) -> bool:
    if not parts:
        return target in host.files
    values = dict(line.split("=", 1) for line in host.files.get(target, "").splitlines())
    return _contain([values[parts[0]]] if parts[0] in values else [], parts[1:])


def _contain(texts: Iterable[str], parts: list[str]) -> bool:
    if not parts:
        return any(True for _ in texts)
    tests = parts[0].split(" && ")
    return any(all(_test(test, line) for test in tests) for text in texts for line in text.splitlines())


def _test(test: str, line: str) -> bool:
    if test.startswith("!"):
        return not _test(test[1:], line)
    if test.startswith("r:"):
        return compile_expression("osregex", test[2:].encode()).test(line.encode())
    if compared := COMPARE.fullmatch(test):
        found = compile_expression("osregex", compared["pattern"].encode()).capture(line.encode())
        number = int(compared["number"])
        if found is None:
            return False
        value = int(found.groups[0])
        return {"<": value < number, "<=": value <= number, ">": value > number, ">=": value >= number}[
            compared["operator"]
        ]
    return test == line
