"""``secmon agents``: the registry of agents, for operators of the host."""

import click

from secmon.agents.registry.key_file import MasterKeyFile
from secmon.agents.registry.store import AgentStore
from secmon.cli.group import LazyGroup, root_option
from secmon.cli.store import require_master, require_own_stores, require_stopped
from secmon.cluster.store_checks import registry_problem
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.sqlite.files import set_aside
from secmon.daemons.install import close_registry


@click.group(cls=LazyGroup)
def agents() -> None:
    """Work with the registry of agents.

    Example:  secmon agents rebuild --root /opt/secmon
    """


@agents.command(short_help="Create the registry again from the key file.")
@root_option
def rebuild(paths: Paths) -> None:
    """Create the registry of agents again from etc/client.keys, in an installation whose registry is lost or damaged.

    For a master, or a node without a cluster, that has no backup and no worker with a copy; stop it first. Agents keep
    their ids and keys. Their groups are lost: each agent gets the group default when it connects.

    Example:  secmon agents rebuild --root /opt/secmon

    Exit status: 0 created, 1 failed, or the registry is whole, 2 wrong usage.
    """
    require_own_stores(paths)
    require_master(paths, instead="run the command on the master,")
    require_stopped(paths)
    if registry_problem(paths) is None:
        raise click.ClickException(f"{paths.agents_db} is whole, or there is no agent to take; nothing was changed")
    if paths.agents_db.exists():
        kept = set_aside(paths.agents_db, SystemClock())
        click.echo(f"{paths.agents_db} is kept as {kept}.")
    store = AgentStore(paths.agents_db)
    try:
        keys = MasterKeyFile(store, paths, SystemClock())
        taken = keys.poll() or keys.poll()  # the first check only sees that there is a file
    finally:
        store.close()
    close_registry(paths)
    count = len(taken.added) if taken is not None else 0
    click.echo(f"{count} agents taken from {paths.client_keys}; they are in no group until they connect.")
