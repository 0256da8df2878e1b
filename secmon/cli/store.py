"""The security store for commands that work on the master only, whether it runs or not."""

import os

import click

from secmon.cli.group import require_installation
from secmon.cluster.store_checks import security_problem
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.sqlite.migration import migrate
from secmon.config.main import load_main_config
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.security.audit import Actor
from secmon.security.store.schema import SCHEMA
from secmon.security.store.security_store import SecurityStore


def open_masters_store(paths: Paths, *, instead: str = "run the command on the master,") -> SecurityStore:
    """The store of a master, or of a node without a cluster.

    Fails in one line on a worker, whose address of the master follows ``instead``, and for a store that is lost.
    """
    require_master(paths, instead=instead)
    reason = security_problem(paths)
    if reason is not None:
        raise click.ClickException(reason)
    if not SupervisorLock(paths.root).held():  # a node that runs has migrated its stores at its start
        migrate(paths.security_db, SCHEMA, SystemClock())
    return SecurityStore(paths.security_db, create=False)


def require_master(paths: Paths, *, instead: str) -> None:
    """Fail with a message on a worker, and without an installation."""
    require_installation(paths)
    cluster = load_main_config(paths).cluster
    if cluster.is_worker:
        raise click.ClickException(f"this node is a worker: {instead} {cluster.master}")


def host_author(operation: str) -> Actor:
    """The author of changes on the host, for the audit log."""
    return Actor(user="local", user_id=0, operation=operation, client=f"uid:{os.getuid()}")


def require_stopped(paths: Paths) -> None:
    """Fail with a message if the node runs."""
    if SupervisorLock(paths.root).held():
        raise click.ClickException(f"secmon runs in {paths.root}; stop it: secmon stop --root {paths.root}")
