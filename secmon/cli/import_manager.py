"""``secmon import manager``: everything of a 4.x manager that has a place here."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click
import msgspec

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.cli.group import echo_json, json_option, root_option
from secmon.cli.import_agents import import_into_registry
from secmon.cli.store import host_author, open_masters_store, require_master, require_own_stores, require_stopped
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.common.sqlite.foreign import ForeignError
from secmon.config.options import load_internal_options
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.importers.agents import read_source as read_agents
from secmon.importers.manager import import_files
from secmon.importers.manager.inventory import databases, read_database, store
from secmon.importers.manager.source import RBAC, read_files
from secmon.importers.rbac import import_rbac
from secmon.importers.rbac import read_source as read_rbac
from secmon.importers.report import Report, ReportLine
from secmon.inventory.store import InventoryStore
from secmon.security.audit import audited

Step = Callable[[bool], Report]
"""A part of the import; with True nothing is written."""


@click.command("manager", short_help="Import a whole 4.x manager.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@root_option
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@json_option
def manager(folder: Path, paths: Paths, dry_run: bool, as_json: bool) -> None:
    """Move a 4.x manager over: agents with their keys and groups, users, rules, decoders, lists, the main
    configuration, the password and certificate of enrolment, and what hosts have reported, from FOLDER, such as
    /var/ossec or a copy of it.

    Works on the master, which must be stopped. Everything is read and checked first: when a line is refused, nothing is
    changed. Each line says what became of one thing; "dropped" ones have no counterpart here, or are not taken over,
    with the reason. A second run changes nothing. FOLDER is only read.

    \b
    Examples:
      secmon import manager /var/ossec --dry-run
      secmon import manager /mnt/old/ossec --root /opt/secmon

    Exit status: 0 done, 1 failed or refused, 2 wrong usage.
    """
    require_own_stores(paths)
    require_master(paths, instead="run the command on the master,")
    if not dry_run:
        require_stopped(paths)
    with as_root():
        users = (folder / RBAC).exists()
    steps = [_agents(folder, paths), *([_users(folder, paths)] if users else []), _files(folder, paths)]
    reports = [step(True) for step in steps]
    lines = [line for report in reports for line in report.lines]
    if not users:
        lines.append(ReportLine("warning", "user", RBAC, "there is none: the users of this node remain"))
    refused = any(report.refused for report in reports)
    written = False
    with as_root():
        found = databases(folder)
    if not refused and not dry_run:
        with click.progressbar(steps, label="Importing", file=sys.stderr) as bar:
            for step in bar:
                written |= step(False).written
        with click.progressbar(
            _inventory(found, paths), length=len(found), label="Inventory", file=sys.stderr
        ) as hosts:
            reported = list(hosts)
        lines += reported
        written |= any(line.result == "imported" for line in reported)
    elif found:
        lines.append(ReportLine("imported", "inventory", f"{len(found)} databases of agents", "read at the import"))
    _print(lines, written=written, refused=refused, dry_run=dry_run, as_json=as_json)


def _agents(folder: Path, paths: Paths) -> Step:
    with as_root():
        source = read_agents(folder)
    return lambda dry_run: import_into_registry(source, paths, dry_run=dry_run)


def _users(folder: Path, paths: Paths) -> Step:
    with as_root():
        source = read_rbac(folder / RBAC)

    def step(dry_run: bool) -> Report:
        store, clock = open_masters_store(paths), SystemClock()
        try:
            written = audited(store, paths.audit_log, host_author("secmon import manager"), clock)
            return import_rbac(store, source, clock, dry_run=dry_run, transaction=written)
        finally:
            store.close()

    return step


def _files(folder: Path, paths: Paths) -> Step:
    with as_root():
        source = read_files(folder)
    validator = RulesetValidator(paths)
    return lambda dry_run: import_files(
        source, paths, lambda changed: list(validator.findings(changed)), SystemClock(), dry_run=dry_run
    )


def _inventory(found: Sequence[tuple[int, Path]], paths: Paths) -> Iterator[ReportLine]:
    """Take over what the hosts of known agents have reported, one after the other; a line for each. Raises OSError."""
    clock, option = SystemClock(), load_internal_options(paths).get
    limits = {"max_rows": option("db.max_rows"), "max_file_entries": option("db.max_file_entries")}
    with closing(AgentStore(paths.agents_db)) as registry, registry.read() as connection:
        known = {each.id for each in entries(connection)}
    with closing(InventoryStore(paths.inventory_db)) as inventory:
        for agent, path in found:
            if agent not in known:
                yield ReportLine("dropped", "inventory", path.name, "there is no such agent", agent)
                continue
            try:
                with as_root():
                    database = read_database(agent, path, **limits)
            except ForeignError as error:
                text = f"{error}; the agent sends all of it again when it connects"
                yield ReportLine("dropped", "inventory", path.name, text, agent)
                continue
            with inventory.write() as transaction:
                yield store(transaction, database, clock.now().timestamp())


def _print(lines: list[ReportLine], *, written: bool, refused: bool, dry_run: bool, as_json: bool) -> None:
    counts = Counter(line.result for line in lines)
    if as_json:
        echo_json({"written": written, "counts": dict(counts), "lines": msgspec.to_builtins(lines)})
    else:
        for line in lines:
            click.echo(str(line))
        click.echo(", ".join(f"{number} {result}" for result, number in sorted(counts.items())) + ".")
    if refused:
        raise click.ClickException("Nothing was changed: resolve what was refused, here or in a copy of the folder.")
    if as_json:
        return
    if written:
        click.echo("The import is done. Start the node, and give it the old manager's address, or change the agents'.")
    else:
        click.echo("Nothing was changed: dry run." if dry_run else "Nothing was changed: all of it is there.")
