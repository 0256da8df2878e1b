"""Checks and migrates the stores of a node before its daemons open them.

A lost store of a master is never created again automatically: users, or groups of agents, would be lost here and on
every worker. Its start is refused, with the remedies. A worker has replicas: a damaged one is renamed and fetched
again.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from secmon.agents.registry.key_file import read_text, store_of_key_file
from secmon.agents.registry.key_lines import parse_keys
from secmon.agents.registry.schema import SCHEMA as AGENTS
from secmon.agents.tasks.schema import SCHEMA as TASKS
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.sqlite.inspection import UnreadableStore, UnusableStore, look_into
from secmon.common.sqlite.migration import migrate
from secmon.inventory.schema import SCHEMA as INVENTORY
from secmon.security.store.schema import SCHEMA as SECURITY


class SecuritySummary(NamedTuple):
    """What is known of a store's content. ``replica``: it came from another master's store ``store_id``."""

    store_id: str
    revision: int
    replica: bool
    users: bool


class Inspection(NamedTuple):
    """What is wrong with the stores of a node.

    ``problems`` stop a start, a sentence each, with the ways out; ``replaceable``: stores that can be set aside,
    because they are copies or not worth an outage, each with the reason.
    """

    problems: list[str]
    replaceable: dict[Path, str]


def inspect_stores(paths: Paths, *, worker: bool) -> Inspection:
    """Look into all stores of a node. Blocks on the disk."""
    found = () if worker else (security_problem(paths), registry_problem(paths))
    problems = [one for one in found if one is not None]
    replaceable: dict[Path, str] = {}
    copies = [(paths.security_db, SECURITY), (paths.agents_db, AGENTS)] if worker else []
    for file, expected in (*copies, (paths.tasks_db, TASKS), (paths.inventory_db, INVENTORY)):
        try:
            if file.exists():
                look_into(file, expected, lambda _: True)
        except UnusableStore as error:
            replaceable[file] = str(error)
        except UnreadableStore as error:
            problems.append(str(error))
    return Inspection(problems, replaceable)


def migrate_stores(paths: Paths, clock: Clock) -> None:
    """Bring all stores of a node that does not run to the versions of this release. Blocks on the disk.

    Raises SecmonError as :func:`migrate` does.
    """
    stores = ((paths.security_db, SECURITY), (paths.agents_db, AGENTS), (paths.tasks_db, TASKS))
    for file, schema in (*stores, (paths.inventory_db, INVENTORY)):
        migrate(file, schema, clock)


def check_security(paths: Paths, *, worker: bool) -> None:
    """Raise 2012, which says what to do, when a daemon cannot work with the security store. Blocks on the disk."""
    reason = None if worker else security_problem(paths)
    if worker:
        try:
            read_security_summary(paths.security_db)
        except UnreadableStore as error:
            reason = str(error)
        except UnusableStore as error:
            reason = (
                f"{error}: run: secmon restart --root {paths.root} (sets it aside; the master sends its state again)"
            )
    if reason is not None:
        raise SecmonError(2012, reason)


def security_problem(paths: Paths) -> str | None:
    """Why this node cannot run as a master, or without a cluster, with its security store, and the remedy; or None."""
    file, root = paths.security_db, paths.root
    ways_out = (
        "put back a backup of the file; or put a worker's copy of it there "
        f"({file.relative_to(root)} of a worker that is stopped) and run: secmon cluster promote --root {root}; "
        f"or run: secmon user create-defaults --root {root} (starts again without the old users)"
    )
    try:
        found = read_security_summary(file)
    except UnreadableStore as error:
        return str(error)
    except UnusableStore as error:
        return f"{error}: {ways_out}"
    if found is None:
        return f"{file} is missing: {ways_out}"
    if not found.users:
        return f"{file} holds no users: {ways_out}"
    if found.replica:
        return (
            f"{file} is a copy of another master's security state (store {found.store_id}, revision {found.revision}): "
            "let this node be a worker of that master; or, when that master is lost, stop this node and run: "
            f"secmon cluster promote --root {root} (takes the copy over)"
        )
    return None


def read_security_summary(file: Path) -> SecuritySummary | None:
    """What is known of the security store in ``file``; None when there is no file. One without tables is empty.

    Raises UnreadableStore, UnusableStore.
    """
    if not file.exists():
        return None
    return look_into(file, SECURITY, _security_summary) or SecuritySummary("", 0, replica=False, users=False)


def _security_summary(connection: sqlite3.Connection) -> SecuritySummary:
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    users = connection.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None
    store_id, generation = meta.get("store_id", ""), int(meta.get("generation", 0))
    return SecuritySummary(store_id, int(meta.get("revision", 0)), generation > 0 or not store_id, users)


def registry_problem(paths: Paths) -> str | None:
    """Why this node, a master or one without a cluster, cannot serve its agents, and the remedy; None when it can.

    Without its registry agents would be served from the key file, which knows no groups, and each would get the
    configuration of the default group. An installation without agents has nothing to lose. Blocks on the disk.
    """
    file, keys, root = paths.agents_db, paths.client_keys, paths.root
    ways_out = (
        "put back a backup of the file; or a worker's copy of it "
        f"({file.relative_to(root)} of a worker that is stopped); or run: secmon agents rebuild --root {root} "
        f"(takes the agents of {keys}, which are then in no group)"
    )
    exists = file.exists()
    try:
        found = look_into(file, AGENTS, _registry) if exists else None
    except UnreadableStore as error:
        return str(error)
    except UnusableStore as error:
        return f"{error}: {ways_out}"
    # An unused registry is right where a key file was put by hand, and wrong where ours was written from another one.
    if found is not None and not (found.unused and store_of_key_file(paths) not in (None, found.store)):
        return None
    known = len(parse_keys(read_text(keys)).active)
    if not known:
        return None
    return f"{file} is {'empty' if exists else 'missing'}, but {keys} names {known} agents: {ways_out}"


class _Registry(NamedTuple):
    """Identity of a registry, and whether no agent was ever in it."""

    store: str
    unused: bool


def _registry(connection: sqlite3.Connection) -> _Registry:
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    return _Registry(meta.get("store_id", ""), meta.get("revision", "0") == "0")
