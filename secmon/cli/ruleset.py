"""``secmon ruleset``: check, test and measure rules and decoders."""

import sys
import time
from pathlib import Path
from statistics import median

import click

from secmon.cli.group import LazyGroup, echo_json, json_option, require_installation, root_option
from secmon.cli.ruleset_counts import counts_of
from secmon.cli.ruleset_source import RulesetSource, source_options
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.daemons.install import renew_ruleset
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_loader import FIRST_NON_ROOT_ID
from secmon.engine.ruleset.case_files import Case, CaseError, Result, find_files, read_file, run_case
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.diagnostics import Message, RulesetError
from secmon.knowledge.attack.knowledge_base import KnowledgeBase

MOST_SHOWN = 20
_CASES = click.Path(path_type=Path, exists=True)


@click.group(cls=LazyGroup, lazy={"coverage": "secmon.cli.ruleset_coverage:coverage"})
def ruleset() -> None:
    """Check, test and measure rules and decoders.

    Each command works with the ruleset that comes with secmon, with that of an installation (--root), or with a folder
    of your own (--ruleset).

    Example:  secmon ruleset test cases/ --root /opt/secmon
    """


@ruleset.command(short_help="Compile it; name all errors.")
@source_options
@json_option
def check(source: RulesetSource, as_json: bool) -> None:
    """Compile the ruleset as the analysis engine does, and name all errors with file and line.

    Example:  secmon ruleset check --root /opt/secmon

    Techniques of MITRE ATT&CK that rules name and that are unknown, revoked or deprecated are warnings.

    Exit status: 0 no errors or warnings, 1 errors or warnings, 2 wrong usage.
    """
    compiled: Ruleset | None = None
    messages: list[Message]
    try:
        compiled = source.compile()
        messages = list(compiled.messages)
    except RulesetError as error:
        messages = [error.message]
    counted = _sizes(compiled) if compiled else None
    techniques = wrong_techniques(compiled, source.attack()) if compiled else {}
    if as_json:
        shown = [
            {"severity": one.severity, "number": one.number, "file": one.file, "line": one.line, "message": one.text}
            for one in messages
        ]
        valid = compiled is not None
        echo_json({"valid": valid, "counts": counted, "messages": shown, "wrong_techniques": techniques})
    else:
        for one in messages:
            place = f"{one.file}:{one.line}: " if one.line else f"{one.file}: " if one.file else ""
            click.echo(f"{place}{one.severity.lower()} {one.number}: {one.text}")
        for technique, (reason, rules) in techniques.items():
            click.echo(f"{technique} is {reason} in ATT&CK: rules {', '.join(map(str, rules))}")
        if counted:
            click.echo(f"{source.name}: " + ", ".join(f"{number} {name}" for name, number in counted.items()))
    sys.exit(1 if messages or techniques else 0)


def wrong_techniques(compiled: Ruleset, attack: KnowledgeBase) -> dict[str, tuple[str, list[int]]]:
    """Techniques that rules name and that are not in use: why, and the rules, by id."""
    found: dict[str, tuple[str, list[int]]] = {}
    for rule in compiled.rules.by_id.values():
        for technique in dict.fromkeys(one.technique for one in rule.mitre):
            if technique not in attack.techniques:
                reason = attack.unused.get(technique, "unknown")
                found.setdefault(technique, (reason, []))[1].append(rule.id)
    return dict(sorted(found.items()))


def _sizes(compiled: Ruleset) -> dict[str, int]:
    return {"decoders": decoder_count(compiled), "rules": len(compiled.rules.by_id), "lists": len(compiled.lists)}


def decoder_count(compiled: Ruleset) -> int:
    """Decoders of all files; a child of two roots of one name counts once."""
    roots = (*compiled.decoders.with_program, *compiled.decoders.without_program)
    return len({id(one) for root in roots for one in (root, *root.children)})


@ruleset.command(short_help="Run the cases of files.")
@click.argument("cases", metavar="DIR|FILE...", nargs=-1, required=True, type=_CASES)
@source_options
@json_option
def test(cases: tuple[Path, ...], source: RulesetSource, as_json: bool) -> None:
    """Run cases: logs with their expected rule, level and decoder. Of a folder all files *.ini are read.

    Lines that cannot be read are named, and the other cases are run. How to write cases: docs/write-rules.md.

    Example:  secmon ruleset test cases/ssh.ini --root /opt/secmon

    Exit status: 0 all as expected, 1 something differs or cannot be read, 2 wrong usage.
    """
    compiled = source.usable()
    read, mistakes = _read(cases)
    results = _run(compiled, read, progress=not as_json and sys.stderr.isatty())
    wrong = [one for one in results if not one.right]
    if as_json:
        echo_json(
            {
                "cases": len(results),
                "failed": len(wrong),
                "failures": [_shown(one) for one in wrong],
                "mistakes": [{"file": one.file, "line": one.line, "problem": one.problem} for one in mistakes],
            }
        )
    else:
        for mistake in mistakes:
            click.echo(str(mistake))
        for one in wrong:
            case = one.case
            click.echo(f"{case.file}:{case.line}: [{case.section}] {case.key}: {one.problem}")
        unread = f"; {len(mistakes)} mistakes in the files" if mistakes else ""
        click.echo(f"{len(results) - len(wrong)} of {len(results)} cases as expected{unread}")
    sys.exit(1 if wrong or mistakes else 0)


def _shown(result: Result) -> dict[str, object]:
    case = result.case
    return {
        "file": case.file,
        "line": case.line,
        "section": case.section,
        "key": case.key,
        "expected": case.expected._asdict(),
        "found": result.found._asdict(),
        "problem": result.problem,
    }


def _read(paths: tuple[Path, ...]) -> tuple[list[Case], list[CaseError]]:
    """The cases, and what cannot be read."""
    mistakes: list[CaseError] = []
    with as_root():
        read = [case for file in find_files(paths) for case in read_file(file, mistakes=mistakes)]
    if not read and not mistakes:
        raise click.ClickException("no cases found: folders are searched for files *.ini")
    return read, mistakes


def _run(compiled: Ruleset, cases: list[Case], *, progress: bool, trace: "RuleTimer | None" = None) -> list[Result]:
    results = []
    for number, case in enumerate(cases, 1):
        results.append(run_case(compiled, case, trace))
        if progress:
            click.echo(f"\r{number} of {len(cases)}", nl=number == len(cases), err=True)
    return results


@ruleset.command(short_help="Count rules; find those without a case.")
@click.argument("cases", metavar="[DIR|FILE]...", nargs=-1, type=_CASES)
@source_options
@json_option
def stats(cases: tuple[Path, ...], source: RulesetSource, as_json: bool) -> None:
    """Count the rules by level, group and file, by the standards and requirements that they name, and those that name
    techniques of MITRE ATT&CK. With cases: name the rules without a match, and the rules whose conditions took longest
    on their logs.

    Example:  secmon ruleset stats cases/ --root /opt/secmon

    Exit status: 0 done, 1 failed or a line of the cases cannot be read, 2 wrong usage.
    """
    compiled = source.usable()
    mistakes: list[CaseError] = []
    data: dict[str, object] = {"counts": _sizes(compiled), **counts_of(compiled, source.attack())}
    if cases:
        watch = RuleTimer()
        read, mistakes = _read(cases)
        for mistake in mistakes:
            click.echo(str(mistake), err=True)
        results = _run(compiled, read, progress=False, trace=watch)
        hit = {number for one in results for number in one.rules}
        data["never_hit"] = sorted(number for number, rule in compiled.rules.by_id.items() if _missed(rule, hit))
        data["slowest"] = watch.slowest()
    if as_json:
        echo_json(data)
    else:
        _print(data)
    sys.exit(1 if mistakes else 0)


@ruleset.command(short_help="Renew the default rules of an installation.")
@root_option
def update(paths: Paths) -> None:
    """Replace the default decoders, rules and lists of an installation by those of this version of secmon.

    Run this after an upgrade. Your own files under etc are not changed. A running engine loads the new ruleset if
    it compiles with your files; otherwise it keeps the previous one.

    Example:  secmon ruleset update --root /opt/secmon

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    require_installation(paths)
    with as_root():  # the folder of the default ruleset is root's
        changed = renew_ruleset(paths)
    for file in changed:
        click.echo(file)
    click.echo(f"{len(changed)} files changed" if changed else "The ruleset is up to date.")


def _missed(rule: Rule, hit: set[int | None]) -> bool:
    return rule.id not in hit and not rule.noalert


def _print(data: dict[str, object]) -> None:
    for title, value in data.items():
        click.echo(f"{title.replace('_', ' ')}:")
        if isinstance(value, dict):
            for name, number in value.items():
                click.echo(f"  {number:>8} {name}")
        elif isinstance(value, list):
            for one in value:
                click.echo(f"  {_cost(one) if isinstance(one, dict) else one}")
            if not value:
                click.echo("  none")


def _cost(one: dict[str, float]) -> str:
    return f"rule {one['rule']}: {one['microseconds']} us, asked {one['times']} times"


class RuleTimer:
    """Measures the conditions of each rule: from one step of the trace to the next one of the same event."""

    def __init__(self) -> None:
        self._nanoseconds: dict[int, list[int]] = {}
        self._rule: int | None = None
        self._since = 0

    def trying(self, rule: Rule) -> None:
        if rule.id < FIRST_NON_ROOT_ID:
            self._rule = None  # another event begins; the trace has no end of an event
        self._stop()
        self._rule, self._since = rule.id, time.perf_counter_ns()

    def matched(self, rule: Rule) -> None:
        self._stop()

    def descending(self, rule: Rule) -> None:
        """Nothing to measure."""

    def _stop(self) -> None:
        if self._rule is not None:
            self._nanoseconds.setdefault(self._rule, []).append(time.perf_counter_ns() - self._since)
            self._rule = None

    def slowest(self) -> list[dict[str, float]]:
        """The rules whose conditions take longest, by the median, which other processes hardly change."""
        typical = {rule: median(times) / 1000 for rule, times in self._nanoseconds.items()}
        return [
            {"rule": rule, "microseconds": round(typical[rule], 1), "times": len(self._nanoseconds[rule])}
            for rule in sorted(typical, key=lambda rule: -typical[rule])[:MOST_SHOWN]
        ]
