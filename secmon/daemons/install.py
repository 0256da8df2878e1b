"""Creates an installation: the folder, and on a master the security store with its first users."""

import errno
import os
import secrets
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import acting_as, as_root, find_account, is_root
from secmon.common.sqlite.files import files_of
from secmon.config.main import AgentPorts, ClusterSection
from secmon.daemons.installation_files import create_installation_files, restore_folders, update_ruleset
from secmon.daemons.supervisor_lock import AlreadyRunning, SupervisorLock
from secmon.security.audit import Actor, audited
from secmon.security.origin import initialise
from secmon.security.passwords import check_password, generate_password
from secmon.security.rbac.defaults import load_defaults
from secmon.security.store.security_store import SecurityStore

COMPLETE = "it holds an installation already; remove it first or choose another folder"
_KEY_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Credentials:
    """Generated passwords by user name, to be shown once."""

    passwords: Mapping[str, str] = field(repr=False)


def install(
    paths: Paths,
    *,
    cluster: ClusterSection | None,
    api: Mapping[str, object] | None = None,
    options: Mapping[str, int] | None = None,
    agent_ports: AgentPorts | None = None,
    admin_password: str | None = None,
) -> Credentials | None:
    """Create the installation; a worker has no users of its own, so there are no credentials for it.

    ``api`` and ``options`` are settings of api.yaml and internal options that differ from the defaults. As root the
    files are given to the service user, if it exists. ``agent_ports``: ports for agents. Without ``admin_password`` one
    is generated.

    Raises ConfigError for values that are not allowed, and 5009 or 5007 for a password against the rules, before any
    file is created; FileExistsError for an existing installation, BlockingIOError while another process creates one.
    """
    if admin_password is not None:
        check_password(admin_password)
    account = find_account() if is_root() else None
    owner = (account.uid, account.gid) if account else None
    worker = cluster is not None and cluster.is_worker
    credentials: Credentials | None = None

    def make_store() -> None:
        nonlocal credentials
        with acting_as(account):
            credentials = _new_store(paths, admin_password, worker=worker)

    with _alone(paths, owner):
        create_installation_files(
            paths,
            cluster=cluster,
            owner=owner,
            api_overrides=api,
            agent_ports=agent_ports,
            options=options,
            before_main=make_store,
        )
    return credentials


def _new_store(paths: Paths, admin_password: str | None, *, worker: bool) -> Credentials | None:
    """Create the security store; the passwords of its first users, which a worker does not have."""
    for unfinished in paths.security.glob("security.db*"):  # of an installation that was interrupted
        unfinished.unlink()
    credentials = None
    if worker:
        SecurityStore(paths.security_db, writable=False).close()
    else:
        credentials = _first_users(paths, admin_password)
    close_store(paths)
    return credentials


@contextmanager
def _alone(paths: Paths, owner: tuple[int, int] | None) -> Iterator[None]:
    """Keep other processes from creating the same installation. Raises FileExistsError for one that is complete.

    A folder that was created for it and is still empty after a failure is removed.
    """
    made = not paths.root.exists()
    restore_folders(paths, ["."], owner)
    lock = SupervisorLock(paths.root)
    try:
        lock.acquire()
    except AlreadyRunning as error:
        reason = f"process {error.pid or 'unknown'} is making an installation in it, or runs one"
        raise BlockingIOError(errno.EBUSY, reason, str(paths.root)) from error
    try:
        if paths.main_config.exists():
            raise FileExistsError(errno.EEXIST, COMPLETE, str(paths.root))
        yield
    except BaseException:
        if made:
            with suppress(OSError):  # it is not empty
                paths.root.rmdir()
        raise
    finally:
        lock.release()


def renew_ruleset(paths: Paths) -> list[str]:
    """Replace the default ruleset of the installation by that of this version; returns the files that changed."""
    return update_ruleset(paths, _owner())


def make_users_anew(paths: Paths, author: Actor) -> Credentials:
    """Create a security store with generated passwords where it is lost; written to the audit log.

    Requires that the node does not run and that no users exist.
    """
    with as_root():
        restore_folders(paths, ["api/configuration/security"], _owner())
    for rest in files_of(paths.security_db):
        rest.unlink(missing_ok=True)
    credentials = _first_users(paths, None, author)
    close_store(paths)
    return credentials


def close_store(paths: Paths) -> None:
    """Give the files of the security store mode 0640."""
    _close(paths.security.glob("security.db*"))


def close_registry(paths: Paths) -> None:
    """Give the files of the agents' registry and the key file mode 0640."""
    _close((*paths.agents_db.parent.iterdir(), paths.client_keys))


def _close(files: Iterable[Path]) -> None:
    for file in files:
        if file.stat().st_uid == os.geteuid():
            file.chmod(0o640)


def _owner() -> tuple[int, int] | None:
    account = find_account() if is_root() else None
    return (account.uid, account.gid) if account else None


def generate_cluster_key() -> str:
    """32 random letters and digits (cluster.md 2.2)."""
    return "".join(secrets.choice(_KEY_ALPHABET) for _ in range(32))


def _first_users(paths: Paths, admin_password: str | None, author: Actor | None = None) -> Credentials:
    """Create the administrator and the user of dashboards; returns the generated passwords.

    With an ``author`` the change is written to the audit log.
    """
    names = [user.username for user in sorted(load_defaults().users, key=lambda user: user.id)]
    generated = {name: generate_password() for name in names}
    admin, dashboard = generated.values()
    if admin_password is not None:
        admin = admin_password
        del generated[names[0]]
    store, clock = SecurityStore(paths.security_db), SystemClock()
    transaction = audited(store, paths.audit_log, author, clock) if author else None
    try:
        initialise(store, admin_password=admin, dashboard_password=dashboard, clock=clock, transaction=transaction)
    finally:
        store.close()
    return Credentials(generated)
