"""``secmon user``: users of the API, for operators of the host without a password."""

import sys

import click

from secmon.cli.group import LazyGroup, root_option
from secmon.cli.store import host_author, open_masters_store, require_master, require_own_stores, require_stopped
from secmon.cluster.store_checks import read_security_summary
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.sqlite.inspection import UnreadableStore, UnusableStore
from secmon.daemons.install import make_users_anew
from secmon.security.audit import audited
from secmon.security.passwords import generate_password
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.user_changes import set_password


@click.group(cls=LazyGroup)
def user() -> None:
    """Work with the users of the API.

    Example:  secmon user reset-password admin --generate
    """


@user.command("create-defaults", short_help="Create the default users after the loss of all users.")
@root_option
def create_defaults(paths: Paths) -> None:
    """Create the two default users again, in an installation that has lost its security store.

    For a master, or a node without a cluster, that has no backup and no worker with a copy; stop it first. All other
    users, roles, policies and rules are lost, on the workers too when they have connected.

    Example:  secmon user create-defaults --root /opt/secmon

    Exit status: 0 created, 1 failed, or there are users, 2 wrong usage.
    """
    require_own_stores(paths)
    require_master(paths, instead="run the command on the master,")
    require_stopped(paths)
    try:
        summary = read_security_summary(paths.security_db)
    except (UnreadableStore, UnusableStore) as error:
        raise click.ClickException(f"{error}; move it aside first") from None
    if summary is not None and summary.users:
        raise click.ClickException(f"{paths.security_db} holds users; nothing was changed")
    credentials = make_users_anew(paths, host_author("secmon user create-defaults"))
    click.echo("Passwords, shown only now:")
    for name, password in credentials.passwords.items():
        click.echo(f"  {name:12}{password}")


@user.command("reset-password", short_help="Give a user a new password.")
@click.argument("name", required=False)
@root_option
@click.option("--generate", is_flag=True, help="Generate a password and print it once, instead of asking for one.")
def reset_password(name: str | None, paths: Paths, generate: bool) -> None:
    """Give user NAME (default: the administrator) a new password and end the user's sessions.

    Works on the master only, running or not; the other nodes get the change at once. The password is typed at
    the prompt, or read from standard input when that is no terminal.

    Example:  secmon user reset-password alice --root /opt/secmon

    Exit status: 0 changed, 1 failed, 2 wrong usage.
    """
    store = open_masters_store(paths)
    try:
        identifier, known = _find(store, name)
        password = generate_password() if generate else _typed_password(known)
        clock = SystemClock()
        author = host_author("secmon user reset-password")
        with audited(store, paths.audit_log, author, clock) as tx:
            set_password(tx, identifier, password, clock)
    finally:
        store.close()
    click.echo(f"The password of {known} is changed; the user's tokens are revoked.")
    if generate:
        click.echo(f"New password, shown only now: {password}")


def _find(store: SecurityStore, name: str | None) -> tuple[int, str]:
    """Id and name of the user called ``name``; the first user is the administrator."""
    with store.read() as tx:
        users = {str(row["username"]): int(str(row["id"])) for row in tx.select(schema.users)}
    if name is None:
        name = min(users, key=lambda each: users[each])
    if name not in users:
        raise click.ClickException(f"no user is called {name}; users: {', '.join(sorted(users))}")
    return users[name], name


def _typed_password(name: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password: str = click.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return password
