"""``secmon import``: import the data of another manager."""

from pathlib import Path

import click
import msgspec

from secmon.cli.group import LazyGroup, echo_json, json_option, root_option
from secmon.cli.store import host_author, open_masters_store
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.importers.rbac import Report, Source, import_rbac, read_source
from secmon.security.audit import audited
from secmon.security.store.security_store import SecurityStore

_PROGRESS_FROM = 2_000
"""Rows from which progress is shown."""


@click.group(
    "import",
    cls=LazyGroup,
    lazy={
        "agents": "secmon.cli.import_agents:agents",
        "manager": "secmon.cli.import_manager:manager",
        "attack": "secmon.cli.import_attack:attack",
        "osv": "secmon.cli.import_osv:osv",
        "sigma": "secmon.cli.import_sigma:sigma",
    },
)
def import_() -> None:
    """Import data of other managers, and knowledge.

    \b
    Examples:
      secmon import manager /var/ossec
      secmon import rbac rbac.db
      secmon import agents /var/ossec
      secmon import attack enterprise-attack.json
      secmon import osv all.zip
      secmon import sigma sigma/rules
    """


@import_.command("rbac", short_help="Import the access control of a 4.x manager.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@root_option
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@json_option
def rbac(file: Path, paths: Paths, dry_run: bool, as_json: bool) -> None:
    """Import users, roles, policies, rules and links from FILE, the rbac.db of a 4.x manager.

    Works on the master only, running or not. The import is complete or changes nothing: unusable rows stop it and are
    named. Users keep their passwords; those of the two default users are replaced by the ones in FILE, their names
    remain. A second run changes nothing. FILE is only read.

    \b
    Examples:
      secmon import rbac rbac.db --dry-run
      secmon import rbac rbac.db --root /opt/secmon --json

    Exit status: 0 done, 1 failed or refused, 2 wrong usage.
    """
    store = open_masters_store(paths)
    try:
        with as_root():
            source = read_source(file)
        report = _import(store, paths, source, dry_run=dry_run)
    finally:
        store.close()
    _print(report, dry_run=dry_run, as_json=as_json)


def _import(store: SecurityStore, paths: Paths, source: Source, *, dry_run: bool) -> Report:
    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = done * 100 // total
        if total >= _PROGRESS_FROM and percent > shown:
            shown = percent
            click.echo(f"\r{percent:3} % of {total} rows", nl=done == total, err=True)

    clock = SystemClock()
    written = audited(store, paths.audit_log, host_author("secmon import rbac"), clock)
    return import_rbac(store, source, clock, dry_run=dry_run, progress=progress, transaction=written)


def _print(report: Report, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        data = {"written": report.written, "counts": report.counts(), "lines": msgspec.to_builtins(report.lines)}
        echo_json(data)
    else:
        for line in report.lines:
            click.echo(str(line))
        counts = ", ".join(f"{number} {result}" for result, number in sorted(report.counts().items()))
        click.echo(f"{counts or 'The file holds nothing to take over'}.")
    if report.refused:
        raise click.ClickException("Nothing was changed: correct or delete the refused rows in a copy of the file.")
    if not as_json:
        if report.written:
            click.echo("The import is done.")
        else:
            click.echo("Nothing was changed: dry run." if dry_run else "Nothing was changed: all of it is there.")
