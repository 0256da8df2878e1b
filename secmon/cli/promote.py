"""``secmon cluster promote``: a former worker's copy of the security state becomes the original."""

import click

from secmon.cli.group import root_option
from secmon.cli.store import host_author, require_master, require_own_stores, require_stopped
from secmon.cluster.store_checks import SecuritySummary, read_security_summary, security_problem
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.sqlite.inspection import UnreadableStore, UnusableStore
from secmon.common.sqlite.migration import migrate
from secmon.daemons.install import close_store
from secmon.security.audit import audited
from secmon.security.origin import promote as promote_store
from secmon.security.store.schema import SCHEMA
from secmon.security.store.security_store import SecurityStore


@click.command(short_help="Replace a lost master by this node.")
@root_option
def promote(paths: Paths) -> None:
    """Make this node's copy of the master's users, roles, policies and rules its own, to replace a lost master.

    Stop the node and make it the master in etc/ossec.conf first (or remove the cluster section:
    it then has no cluster). All tokens end; passwords remain valid. Changes that the lost master had not sent to this
    node are lost. The lost master must not return as a master.

    Example:  secmon cluster promote --root /opt/secmon

    Exit status: 0 done, or nothing to do, 1 failed, 2 wrong usage.
    """
    require_own_stores(paths)
    require_master(paths, instead=f"make it the master in {paths.main_config} first (node_type and nodes), in place of")
    require_stopped(paths)
    found = _copy(paths)
    if not found.replica:
        click.echo(f"{paths.security_db} is this node's own already; nothing was changed.")
        return
    clock = SystemClock()
    migrate(paths.security_db, SCHEMA, clock)
    store = SecurityStore(paths.security_db, create=False)
    try:
        with audited(store, paths.audit_log, host_author("secmon cluster promote"), clock) as tx:
            promote_store(tx, clock)
        now = store.position()
    finally:
        store.close()
    close_store(paths)
    click.echo(f"Promoted: store {found.store_id} at revision {found.revision} continues as store {now.store_id}.")
    click.echo(f"All tokens have ended. Start the node: secmon start --root {paths.root}")


def _copy(paths: Paths) -> SecuritySummary:
    """Metadata of the store; fails with a message if it has no users."""
    try:
        found = read_security_summary(paths.security_db)
    except (UnreadableStore, UnusableStore):
        found = None
    if found is None or not found.users:
        raise click.ClickException(security_problem(paths) or "the security store has changed meanwhile")
    return found
