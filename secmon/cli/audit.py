"""``secmon audit``: the log of changes of users, roles, policies and rules."""

import sys
from collections.abc import Collection
from pathlib import Path

import click
import msgspec

from secmon.cli.group import LazyGroup, echo_json, json_option, root_option
from secmon.cli.store import open_masters_store
from secmon.common.paths import Paths
from secmon.security.audit_check import AuditReport, check_end, check_store, verify, verify_lines
from secmon.security.store.position import AuditEnd


@click.group(cls=LazyGroup, short_help="Work with the log of security changes.")
def audit() -> None:
    """Work with the audit log: who changed users, roles, policies and rules, and when.

    Example:  secmon audit verify --root /opt/secmon
    """


def _parse_anchors(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[AuditEnd, ...]:
    try:
        return tuple(map(AuditEnd.parse, values))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@audit.command("verify", short_help="Check that no line was altered or removed.")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@root_option
@json_option
@click.option(
    "--anchor",
    "anchors",
    metavar="SEQ:HASH",
    multiple=True,
    callback=_parse_anchors,
    help="A line from another host; may be repeated.",
)
def verify_log(file: Path | None, paths: Paths, as_json: bool, anchors: tuple[AuditEnd, ...]) -> None:
    """Check that no line of the audit log was altered or removed; name the first such line.

    The log of the installation is also checked against its security store: every change must be there, and the last
    line must be the one that the store knows. Both are on the master; a worker has no audit log. With FILE a copy of a
    log is checked without a store. Each --anchor is a line that the log must have: secmon-modulesd logs one a day
    ("Audit anchor: SEQ:HASH"). Take it from the host that collects your logs, not from this host.

    \b
    Examples:
      secmon audit verify --root /opt/secmon
      secmon audit verify --root /opt/secmon --anchor 214:9f0c...
      secmon audit verify /backup/security.log

    Exit status: 0 intact, 1 not intact or not checkable here, 2 wrong usage.
    """
    report = verify(file, anchors) if file else _verify_installation(paths, anchors)
    where = file or paths.audit_log
    if as_json:
        echo_json({"file": str(where), "valid": report.problem is None, **msgspec.to_builtins(report)})
    else:
        click.echo(_sentence(where, report))
    sys.exit(0 if report.problem is None else 1)


def _verify_installation(paths: Paths, anchors: Collection[AuditEnd]) -> AuditReport:
    # The store is read before and after: a change in between extends both, and the log first.
    store = open_masters_store(paths, instead="the audit log is on the master,")
    try:
        position, end = store.position(), store.audit_end()
        known = (*anchors, *([end] if end is not None else []))
        report = verify(paths.audit_log, known) if paths.audit_log.exists() else verify_lines([], known)
        check_end(report, position.store_id, position.revision)
        check_store(report, store.position().revision, store.audit_end(), anchors)
    finally:
        store.close()
    return report


def _sentence(where: Path, report: AuditReport) -> str:
    if report.problem is not None:
        return f"{where}, line {report.problem.line}: {report.problem.text}."
    notes = [f"{where} is whole: {report.changes} changes, up to revision {report.revision}."]
    if report.voided:
        notes.append(f"{report.voided} further ones were written down and then not made.")
    if report.torn or report.unfinished:
        notes.append("A crash cut lines off; their changes were not made.")
    if report.begun > 1:
        notes.append("The security store was replaced or restored from a copy on the way.")
    return " ".join(notes)
