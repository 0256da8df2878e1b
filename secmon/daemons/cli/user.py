"""``secmon user``: users of the API, for who has the host but not the password."""

import os
import sys

import click

from secmon.common.clock import SystemClock
from secmon.common.config.main import load_main_config
from secmon.common.paths import Paths
from secmon.common.security.admin import set_password
from secmon.common.security.audit import Author, audited
from secmon.common.security.passwords import generate_password
from secmon.common.store import schema
from secmon.common.store.security import SecurityStore
from secmon.daemons.cli.group import LazyGroup, require_installation, root_option


@click.group(cls=LazyGroup)
def user() -> None:
    """Work with the users of the API.

    Example:  secmon user reset-password admin --generate
    """


@user.command("reset-password", short_help="Give a user a new password.")
@click.argument("name", required=False)
@root_option
@click.option("--generate", is_flag=True, help="Make a password and print it once, in place of asking for one.")
def reset_password(name: str | None, paths: Paths, generate: bool) -> None:
    """Give user NAME (default: the administrator) a new password and end the user's sessions.

    Works on the master only, whether it runs or not; the other nodes learn of it at once. The password is typed at
    the prompt, or read from standard input when that is no terminal.

    Example:  secmon user reset-password alice --root /opt/secmon

    Exit status: 0 changed, 1 failed, 2 wrong usage.
    """
    require_installation(paths)
    cluster = load_main_config(paths).cluster
    if not cluster.disabled and cluster.node_type == "worker":
        raise click.ClickException(f"this node is a worker: run the command on the master, {cluster.master}")
    if not paths.security_db.exists():
        raise click.ClickException(f"{paths.security_db} does not exist; make an installation: secmon init")
    store = SecurityStore(paths.security_db)
    try:
        identifier, known = _find(store, name)
        password = generate_password() if generate else _typed_password(known)
        clock = SystemClock()
        author = Author(user="local", user_id=0, operation="secmon user reset-password", client=f"uid:{os.getuid()}")
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
