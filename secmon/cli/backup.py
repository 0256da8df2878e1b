"""``secmon backup``: everything of a master in one encrypted file."""

import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import click

from secmon.backup.contents import PARTS
from secmon.backup.create import create_backup
from secmon.backup.encryption import MIN_PASSPHRASE, Seal, passphrase_seal, public_key_seal
from secmon.backup.fault import BackupError
from secmon.backup.retention import backup_name, delete_old
from secmon.cli.group import require_installation, root_option
from secmon.cli.secret_file import read_secret, read_secret_line
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.config.main import load_main_config

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
STEPS = {"copy": "Copying the stores and files", "write": "Writing the backup", "read": "Reading it back"}


class StepBars:
    """A progress bar for each step of a long command, on standard error."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._step = ""
        self._bar: click._termui_impl.ProgressBar[int] | None = None

    def __enter__(self) -> "StepBars":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def show(self, step: str, done: int, total: int) -> None:
        """``done`` of ``total`` bytes of ``step`` are done."""
        if self._bar is None or step != self._step:
            self._stack.close()
            self._step = step
            self._bar = self._stack.enter_context(
                click.progressbar(length=max(total, 1), label=STEPS.get(step, step), file=sys.stderr)
            )
        self._bar.update(done - self._bar.pos)


@click.command(short_help="Save everything of a master in one encrypted file.")
@click.argument("file", type=click.Path(path_type=Path))
@root_option
@click.option("--passphrase-file", type=_FILE, help="File with the passphrase. Default: asked for on the terminal.")
@click.option(
    "--public-key", type=_FILE, help="File with public keys of SSH or age, one a line, instead of a passphrase."
)
@click.option(
    "--without", type=click.Choice(sorted(PARTS)), multiple=True, help="Leave this part out; may be given repeatedly."
)
@click.option("--keep", type=click.IntRange(1), help="With a folder: delete all but the latest backups of this node.")
@click.option("--if-master", is_flag=True, help="Do nothing, with status 0, on a node that is not the master now.")
def backup(
    file: Path,
    paths: Paths,
    passphrase_file: Path | None,
    public_key: Path | None,
    without: tuple[str, ...],
    keep: int | None,
    if_master: bool,
) -> None:
    """Save the master in FILE, or in a new file in the folder FILE: users, roles, agents, groups, tasks, rules, keys,
    certificates, configuration, audit log, and what hosts have reported. The node may run.

    All stores are saved as they were at one moment; with a store of record, as they are recorded. The file is
    encrypted, read back and compared before it gets its name. It can be restored on any host: secmon restore.

    With --public-key there is no secret on this host that opens the backups:

    \b
      ssh-keygen -t ed25519 -N '' -f backup-key     (on another host; keep backup-key there)
      secmon backup /backups --public-key backup-key.pub --keep 14

    \b
    Examples:
      secmon backup /backups/before-the-move.secmon
      secmon backup /backups --passphrase-file /root/backup.pass --keep 7 --without inventory

    Exit status: 0 done, 1 failed and no file was written, 2 wrong usage.
    """
    if passphrase_file and public_key:
        raise click.UsageError("give --passphrase-file or --public-key, not both")
    into_folder = file.is_dir()
    if keep and not into_folder:
        raise click.UsageError(f"--keep needs a folder that exists: {file} is none")
    require_installation(paths)
    cluster = current_cluster(paths, load_main_config(paths).cluster)
    if cluster.is_worker:
        if if_master:
            click.echo("This node is not the master now: nothing to do.")
            return
        raise click.ClickException("this node is a worker, which has copies only: run the command on the master")
    clock = SystemClock()
    target = file / backup_name(cluster.node_name, clock) if into_folder else file
    seal = _seal(passphrase_file, public_key)
    try:
        with StepBars() as bars:
            about, size = create_backup(paths, target, seal, without=without, clock=clock, progress=bars.show)
    except BackupError as error:
        raise click.ClickException(f"{error}; no backup was written") from error
    click.echo(f"{target}: {about.files} files, {_mb(about.size)} as {_mb(size)}, read back and compared.")
    if keep:
        with as_root():
            for old in delete_old(file, cluster.node_name, keep):
                click.echo(f"Deleted {old}")


def _seal(passphrase_file: Path | None, public_key: Path | None) -> Seal:
    try:
        if public_key:
            return public_key_seal(read_secret(public_key).decode("utf-8", "replace"))
        return passphrase_seal(read_secret_line(passphrase_file) if passphrase_file else _new_passphrase())
    except BackupError as error:
        raise click.ClickException(f"{public_key or passphrase_file or 'passphrase'}: {error}") from error


def _new_passphrase() -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("give --passphrase-file or --public-key, or use a terminal")
    prompt = f"Passphrase of the backup (at least {MIN_PASSPHRASE} characters)"
    return str(click.prompt(prompt, hide_input=True, confirmation_prompt=True, err=True))


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
