"""Making an installation: the folder, and on a master the security store with its first users."""

import os
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from secmon.common.clock import SystemClock
from secmon.common.config.main import ClusterSection
from secmon.common.config.options import LOCAL_TEMPLATE
from secmon.common.layout import create_layout
from secmon.common.paths import Paths
from secmon.common.rbac.defaults import load_defaults
from secmon.common.security.admin import initialise
from secmon.common.security.passwords import check_password, generate_password
from secmon.common.store.security import SecurityStore
from secmon.daemons.privileges import find_account, is_root

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
    admin_password: str | None = None,
) -> Credentials | None:
    """Create the installation; a worker has no users of its own, so there are no credentials for it.

    ``api`` and ``options`` are settings of api.yaml and internal options that differ from the defaults. As root
    everything is given to the service user where it exists. ``admin_password`` None has one generated. Raises
    ConfigError for values that are not allowed, 5009 or 5007 for a password against the rules, before anything is made.
    """
    if admin_password is not None:
        check_password(admin_password)
    account = find_account() if is_root() else None
    owner = (account.uid, account.gid) if account else None
    credentials: list[Credentials] = []

    def make_users() -> None:
        for left_behind in paths.security.glob("security.db*"):  # by an installation that was cut short
            left_behind.unlink()
        if options:
            lines = "".join(f"{name}={value}\n" for name, value in options.items())
            paths.local_internal_options.write_text(LOCAL_TEMPLATE + lines)
        if cluster is not None and cluster.node_type == "worker":
            # The empty replica, made here for the sake of its owner.
            SecurityStore(paths.security_db, writable=False).close()
        else:
            credentials.append(_first_users(paths, admin_password))
        if owner:
            for file in paths.security.glob("security.db*"):
                os.chown(file, *owner)

    create_layout(paths, cluster=cluster, owner=owner, api_overrides=api, before_main=make_users)
    return credentials[0] if credentials else None


def generate_cluster_key() -> str:
    """32 random letters and digits (cluster.md 2.2)."""
    return "".join(secrets.choice(_KEY_ALPHABET) for _ in range(32))


def _first_users(paths: Paths, admin_password: str | None) -> Credentials:
    """The administrator and the user of dashboards; the passwords that were generated."""
    names = [user.username for user in sorted(load_defaults().users, key=lambda user: user.id)]
    generated = {name: generate_password() for name in names}
    admin, dashboard = generated.values()
    if admin_password is not None:
        admin = admin_password
        del generated[names[0]]
    store = SecurityStore(paths.security_db)
    try:
        initialise(store, admin_password=admin, dashboard_password=dashboard, clock=SystemClock())
    finally:
        store.close()
    return Credentials(generated)
