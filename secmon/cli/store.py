"""The security store for commands that work on the master only, whether it runs or not."""

import os

import click

from secmon.cli.group import require_installation
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.cluster.record.masters_record import MastersRecord, record_address
from secmon.cluster.record.recorded_stores import SECURITY
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
    store, record = SecurityStore(paths.security_db, create=False), masters_record(paths)
    if record is not None:
        store.record_with(record.recorder(SECURITY))
    return store


def require_master(paths: Paths, *, instead: str) -> None:
    """Fail with a message on a worker, and without an installation."""
    require_installation(paths)
    cluster = current_cluster(paths, load_main_config(paths).cluster)
    if cluster.is_worker:
        master = cluster.nodes[0] if cluster.nodes else "which is not known; see: secmon store status"
        raise click.ClickException(f"this node is a worker: {instead} {master}")


def masters_record(paths: Paths) -> MastersRecord | None:
    """The store of record, if the configuration names one: what a command changes on the master is committed there."""
    section = load_main_config(paths).cluster
    return None if section.store is None else MastersRecord(paths, record_address(paths, section.store))


def require_own_stores(paths: Paths) -> None:
    """Fail with a message where a store of record has what the command would change on this node alone."""
    require_installation(paths)
    if load_main_config(paths).cluster.store is not None:
        raise click.ClickException(
            "the store of record has the state of this cluster, and any node goes on with it: this command is for "
            "clusters without one (docs/high-availability.md)"
        )


def host_author(operation: str) -> Actor:
    """The author of changes on the host, for the audit log."""
    return Actor(user="local", user_id=0, operation=operation, client=f"uid:{os.getuid()}")


def require_stopped(paths: Paths) -> None:
    """Fail with a message if the node runs."""
    if SupervisorLock(paths.root).held():
        raise click.ClickException(f"secmon runs in {paths.root}; stop it: secmon stop --root {paths.root}")
