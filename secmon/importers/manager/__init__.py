"""Imports what is in files of a 4.x manager: main configuration, rules, decoders, lists, the files of enrolment.

Agents and users are imported by ``importers.agents`` and ``importers.rbac``.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

from msgspec import Struct, field

from secmon.common.clock import Clock
from secmon.common.paths import Paths
from secmon.config.default_ruleset import default_ruleset_files
from secmon.config.main import check_main_config
from secmon.config.replace import replace_main_config
from secmon.importers.manager.main_config import keep_cluster
from secmon.importers.manager.source import MAIN, Files
from secmon.importers.report import Report, ReportLine, printable
from secmon.importers.undo import write_or_restore

_MODES = {"etc/authd.pass": 0o640, "etc/sslmanager.cert": 0o640, "etc/sslmanager.key": 0o640}
_MODE = 0o660
_MOST_WARNINGS = 50


class Finding(Protocol):
    """What the engine says of a ruleset."""

    @property
    def error(self) -> bool: ...
    @property
    def text(self) -> str: ...


Findings = Callable[[Mapping[str, bytes]], list[Finding]]
"""What the engine would say with these files, by their path below the installation."""


class Plan(Struct):
    """``files``: what is written, by path below the installation; ``main``: the configuration, if it changes."""

    lines: list[ReportLine] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    main: bytes | None = None

    @property
    def refused(self) -> bool:
        return any(line.result == "refused" for line in self.lines)


def import_files(source: Files, paths: Paths, findings: Findings, clock: Clock, *, dry_run: bool = False) -> Report:
    """Take the files over, all or none: nothing is changed when a line is refused. Raises OSError, SecmonError."""
    plan = decide(source, paths, findings)
    if plan.refused or dry_run or not (plan.files or plan.main):
        return Report(tuple(plan.lines), written=False)
    with ExitStack() as undo:
        for name, data in plan.files.items():
            path = paths.root / name
            path.parent.mkdir(mode=0o770, exist_ok=True, parents=True)
            write_or_restore(path, data, _MODES.get(name, _MODE), undo)
        if plan.main is not None:
            replace_main_config(paths, saved=paths.main_config.read_bytes(), new=plan.main, now=clock.now())
        undo.pop_all()
    return Report(tuple(plan.lines), written=True)


def decide(source: Files, paths: Paths, findings: Findings) -> Plan:
    """What is written, and what is not; nothing is written yet. Raises OSError."""
    plan = Plan(lines=list(source.lines))
    for name, data in source.files.items():
        _decide_file(plan, name, data, paths)
    if source.main is not None:
        _decide_main(plan, source.main, paths)
    if not plan.refused:
        _decide_ruleset(plan, findings)
    return plan


def _decide_file(plan: Plan, name: str, data: bytes, paths: Paths) -> None:
    path, shown = paths.root / name, printable(name)
    there = path.read_bytes() if path.exists() else None
    if there == data:
        plan.lines.append(ReportLine("present", "file", shown))
    elif there is None or there == default_ruleset_files().get(name.removeprefix("etc/")):
        plan.lines.append(ReportLine("imported", "file", shown))
        plan.files[name] = data
    else:
        plan.lines.append(ReportLine("refused", "file", shown, "another file is here; remove it, or make them equal"))


def _decide_main(plan: Plan, theirs: bytes, paths: Paths) -> None:
    ours = paths.main_config.read_bytes()
    new = keep_cluster(theirs, ours)
    report = check_main_config(new, file=MAIN)
    for problem in report.problems:
        plan.lines.append(ReportLine("refused", "section", MAIN, str(problem)))
    if new == ours:
        plan.lines.append(ReportLine("present", "file", MAIN))
    elif not report.problems:
        text = "this node keeps its own cluster section; what was here is kept as ossec.conf.backup"
        plan.lines.append(ReportLine("imported", "file", MAIN, text))
        plan.main = new
    plan.lines += [ReportLine("dropped", "section", MAIN, each.removeprefix(f"{MAIN}:")) for each in report.warnings]


def _decide_ruleset(plan: Plan, findings: Findings) -> None:
    changed = plan.files | ({} if plan.main is None else {MAIN: plan.main})
    if not changed:
        return
    found = findings(changed)
    errors = [each for each in found if each.error]
    warnings = [each.text.removeprefix("WARNING: ") for each in found if not each.error]
    plan.lines += [ReportLine("refused", "ruleset", "ruleset", f"it would not load: {each.text}") for each in errors]
    plan.lines += [ReportLine("warning", "ruleset", "ruleset", each) for each in warnings[:_MOST_WARNINGS]]
    if len(warnings) > _MOST_WARNINGS:
        more = f"{len(warnings) - _MOST_WARNINGS} more warnings: run secmon config check after the import"
        plan.lines.append(ReportLine("warning", "ruleset", "ruleset", more))
