"""``secmon restore``: a master from a backup."""

import sys
import time
from pathlib import Path
from typing import IO

import click

from secmon.backup.encryption import Identity, passphrase_identity, private_key, read_head
from secmon.backup.fault import BackupError
from secmon.backup.restore import Restored, restore_backup
from secmon.cli.backup import StepBars
from secmon.cli.group import root_option
from secmon.cli.secret_file import read_secret, read_secret_line
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(short_help="Restore a master from a backup.")
@click.argument("file", type=_FILE)
@root_option
@click.option("--passphrase-file", type=_FILE, help="File with the passphrase. Default: asked for on the terminal.")
@click.option("--private-key", "key_file", type=_FILE, help="The private key of SSH (without a passphrase) or age.")
@click.option("--replace", is_flag=True, help="Replace the installation that is there; it is kept aside.")
@click.option("--daemons-as-root", is_flag=True, help="Accept a backup with drop_privileges: no in its api.yaml.")
def restore(
    file: Path,
    paths: Paths,
    passphrase_file: Path | None,
    key_file: Path | None,
    replace: bool,
    daemons_as_root: bool,
) -> None:
    """Make the installation folder what the backup FILE holds, on this host or another one.

    The whole backup is read and checked before anything is replaced. Agents, users, tokens, workers and the audit log
    go on as they were when the backup was made. On another host, give it the old host's address, or change
    <nodes> in etc/ossec.conf of all nodes and the address in the agents.

    A backup decides what the node runs: restore only those that you or your schedule have made.

    \b
    Examples:
      secmon restore /backups/m1-20260701T030000Z.secmon --root /opt/secmon --private-key backup-key
      secmon restore /backups/before-the-move.secmon --replace

    Exit status: 0 restored, 1 failed and nothing was replaced, 2 wrong usage.
    """
    try:
        with open(file, "rb") as archive:
            identity = _identity(archive, passphrase_file, key_file)
            with StepBars() as bars:
                restored = restore_backup(
                    archive,
                    identity,
                    paths,
                    replace=replace,
                    daemons_as_root=daemons_as_root,
                    clock=SystemClock(),
                    progress=lambda done, total: bars.show("Restoring", done, total),
                )
    except BackupError as error:
        raise click.ClickException(f"{file}: {error}; nothing was replaced") from error
    _report(paths, restored)


def _identity(archive: IO[bytes], passphrase_file: Path | None, key_file: Path | None) -> Identity:
    head = read_head(archive)
    if not head:
        if key_file is None:
            raise click.UsageError("the backup is encrypted for a public key: give --private-key")
        return private_key(read_secret(key_file))
    if key_file is not None:
        raise click.UsageError("the backup is encrypted with a passphrase: give --passphrase-file, not --private-key")
    if passphrase_file:
        return passphrase_identity(head, read_secret_line(passphrase_file))
    if not sys.stdin.isatty():
        raise click.UsageError("give --passphrase-file, or use a terminal")
    return passphrase_identity(head, str(click.prompt("Passphrase of the backup", hide_input=True, err=True)))


def _report(paths: Paths, restored: Restored) -> None:
    about = restored.about
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(about.created))
    click.echo(f"Restored {about.files} files of {about.node} as it was at {made}, by secmon {about.version}.")
    if about.without:
        click.echo(f"The backup was made without: {', '.join(about.without)}.")
    if restored.aside is not None:
        click.echo(f"What was here before is in {restored.aside}; delete it when you are content.")
    if about.recorded:
        click.echo(
            "It had a store of record. If that is there, the node goes on with what is recorded. If it is lost, make "
            "an empty database and run: secmon store migrate"
        )
    click.echo(f"Start it: secmon start --root {paths.root}")
