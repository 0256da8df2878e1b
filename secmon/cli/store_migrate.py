"""``secmon store``: the store of record in PostgreSQL."""

import click
from sqlalchemy import Connection, text

from secmon.cli.group import LazyGroup, require_installation, root_option
from secmon.cli.store import require_stopped
from secmon.cluster.leadership.candidates import Candidate, announced
from secmon.cluster.leadership.term import TermRow
from secmon.cluster.leadership.terms import look
from secmon.cluster.record.engine import RecordAddress, record_at
from secmon.cluster.record.masters_record import record_address
from secmon.cluster.record.migration import current_master, fill, retire
from secmon.cluster.record.schema import stores
from secmon.cluster.record.setup import check_tables, upgrade_tables
from secmon.cluster.store_checks import security_problem
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.config.main import load_main_config
from secmon.daemons.take_files import take_recorded_files
from secmon.daemons.takeover import take_everything

_SECONDS = 600.0
_TIME = "%Y-%m-%d %H:%M:%S %Z"


@click.group(cls=LazyGroup, short_help="Keep what the master owns in PostgreSQL, and back.")
def store() -> None:
    """Keep what the master owns in a PostgreSQL database, so that any node can become master.

    The option store of the cluster section names the database (docs/high-availability.md).

    \b
    Examples:
      secmon store migrate
      secmon store status
    """


@store.command(short_help="Move this master's state into the store of record, or back.")
@click.option("--back", is_flag=True, help="Make this node's own stores what is recorded, and end the store of record.")
@root_option
def migrate(paths: Paths, back: bool) -> None:
    """Move what this master owns into the empty database that the option store names: users, roles, policies, rules,
    agents, groups, tasks, replicated files, the audit log and the certificate authority.

    Stop the node first. All of it is moved, read again and compared, or nothing: the command can be repeated. A store
    of record of an earlier release is kept, and gets the tables of this one; no node may be master then.

    With --back this node gets what is recorded. The tables are renamed, so that no node uses them any more. Stop
    all nodes before, and remove the option store from their configuration afterwards.

    \b
    Examples:
      secmon store migrate
      secmon store migrate --back

    Exit status: 0 done, 1 failed and nothing was changed, 2 wrong usage.
    """
    section, address = _configured(paths)
    require_stopped(paths)
    clock = SystemClock()
    with record_at(address, statement_seconds=_SECONDS) as engine, engine.connect() as record:
        if back:
            _move_back(record, paths, section.key, clock)
            return
        if (found := upgrade_tables(record)) is not None:
            _require_no_master(record)
            record.commit()
            click.echo(f"{address.shown}: the tables were migrated from version {found} to that of this release.")
            return
        problem = security_problem(paths)
        if problem is not None:
            raise click.ClickException(problem)
        fill(record, paths, section.key, clock, lambda name, count: click.echo(f"{name}: {count}"))
    click.echo(f"Moved to {address.shown}. Start the node: secmon start --root {paths.root}")


@store.command(short_help="Show the store of record: who is master, revisions.")
@root_option
def status(paths: Paths) -> None:
    """Show what the store of record says: server, term and master; the nodes that look at it, and which of them could
    become master; the revision of each store.

    Example:  secmon store status --root /opt/secmon

    Exit status: 0 shown, 1 the database cannot be used or holds no store of record.
    """
    _, address = _configured(paths)
    with record_at(address) as engine, engine.connect() as record:
        server = record.execute(text("SHOW server_version")).scalar_one()
        check_tables(record, older=True)
        row = look(record)
        nodes = [] if row is None else announced(record, row.ttl_seconds)
        revisions = record.execute(stores.select().order_by(stores.c.store)).all()
    click.echo(f"{address.shown}: PostgreSQL {server}")
    if row is not None:
        click.echo(f"term {row.term.number}: {row.term.holder or 'no master yet'} ({_state(row)}): {row.reason}")
        for node in nodes:
            click.echo(f"{node.node} at {node.address}:{node.port}: {_standing(node, row)}")
    for each in revisions:
        click.echo(f"{each.store}: revision {each.revision}")


def _state(row: TermRow) -> str:
    if row.resigned:
        return "resigned"
    return f"expired since {row.expires:{_TIME}}" if row.expired else f"since {row.since:{_TIME}}"


def _standing(node: Candidate, row: TermRow) -> str:
    if node.holds(row.term) and not (row.expired or row.resigned):
        return "is the master"
    if node.obstacle:
        return f"cannot become master: {node.obstacle}"
    behind = f", recorded changes that it lacks: {node.missing}" if node.missing else ""
    return f"can become master, preference {node.preference}{behind}"


def _move_back(record: Connection, paths: Paths, cluster_key: str, clock: SystemClock) -> None:
    check_tables(record)
    _require_no_master(record)
    take_everything(record, paths, cluster_key, "before-migration")
    take_recorded_files(record, paths, "before-migration", clock)
    _require_no_master(record)  # a node may have started meanwhile
    kept = retire(record, clock)
    record.commit()
    click.echo(f"This node has what was recorded. The tables are kept in the schema {kept}.")
    click.echo("Now remove the option store from the cluster section of each node, and start the nodes.")


def _require_no_master(record: Connection) -> None:
    if master := current_master(record):
        raise click.ClickException(f"{master} is master by this store of record: stop all nodes first")


def _configured(paths: Paths) -> tuple[ClusterSection, RecordAddress]:
    require_installation(paths)
    section = load_main_config(paths).cluster
    if section.disabled or section.store is None:
        raise click.ClickException(f"{paths.main_config} names no store in an enabled cluster section")
    return section, record_address(paths, section.store)
