"""``secmon import agents``: agents, groups and assignments of a 4.x manager."""

from pathlib import Path

import click
import msgspec

from secmon.agents.registry.schema import SCHEMA
from secmon.agents.registry.store import AgentStore
from secmon.cli.group import echo_json, json_option, root_option
from secmon.cli.store import require_master, require_own_stores, require_stopped
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.common.sqlite.migration import migrate
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.importers.agents import Report, import_agents, read_source
from secmon.importers.agents.source import Source


@click.command("agents", short_help="Import the agents and groups of a 4.x manager.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@root_option
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
@json_option
def agents(folder: Path, paths: Paths, dry_run: bool, as_json: bool) -> None:
    """Import agents with their ids and keys, groups with their files, and which agent is in which group, from
    FOLDER, the installation folder of a 4.x manager or a copy of it.

    Read are etc/client.keys, etc/shared, queue/db/global.db (of the first 4.x releases queue/agent-groups),
    queue/agents-timestamp and queue/rids/sender_counter. Works on the master, which must be stopped. The import is
    complete or changes nothing: conflicts with this installation stop it and are named. A second run changes nothing.
    FOLDER is only read.

    \b
    Examples:
      secmon import agents /var/ossec --dry-run
      secmon import agents /mnt/old/ossec --root /opt/secmon --json

    Exit status: 0 done, 1 failed or refused, 2 wrong usage.
    """
    require_own_stores(paths)
    require_master(paths, instead="run the command on the master,")
    if not dry_run:
        require_stopped(paths)
    with as_root():
        source = read_source(folder)
    report = import_into_registry(source, paths, dry_run=dry_run)
    _print(report, dry_run=dry_run, as_json=as_json)


def import_into_registry(source: Source, paths: Paths, *, dry_run: bool) -> Report:
    """Import ``source`` into the registry of the installation, migrated first unless the node runs."""
    if not SupervisorLock(paths.root).held():
        migrate(paths.agents_db, SCHEMA, SystemClock())
    store = AgentStore(paths.agents_db)
    try:
        return import_agents(store, source, paths, SystemClock(), dry_run=dry_run)
    finally:
        store.close()


def _print(report: Report, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        data = {"written": report.written, "counts": report.counts(), "lines": msgspec.to_builtins(report.lines)}
        echo_json(data)
    else:
        for line in report.lines:
            click.echo(str(line))
        counts = ", ".join(f"{number} {result}" for result, number in sorted(report.counts().items()))
        click.echo(f"{counts or 'The folder holds nothing to take over'}.")
    if report.refused:
        raise click.ClickException("Nothing was changed: resolve what was refused, here or in a copy of the folder.")
    if not as_json:
        if report.written:
            click.echo("The import is done.")
        else:
            click.echo("Nothing was changed: dry run." if dry_run else "Nothing was changed: all of it is there.")
