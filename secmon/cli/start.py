"""``secmon start``: the node's processes, in the foreground or in the background."""

import asyncio
import sys
from collections.abc import Mapping

import click

from secmon.cli.group import require_installation, root_option
from secmon.cli.passphrase import ask_passphrase
from secmon.cli.service import STOPPING, phase
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths
from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.daemon import KEY_PASSWORD, StartError, start_error
from secmon.daemons.launch import launch
from secmon.daemons.process_log import set_up_process_log
from secmon.daemons.supervisor import Supervisor
from secmon.daemons.supervisor_lock import AlreadyRunning, SupervisorLock
from secmon.daemons.supervisor_settings import SupervisorSettings, read_supervisor_settings, require_processes

_START_SECONDS = 180.0


@click.command(short_help="Start the daemons and keep them running.")
@root_option
@click.option("--daemonize", "-d", is_flag=True, help="Return when the node runs in the background.")
@click.option("--single-process", is_flag=True, help="Run all daemons in one process: less memory, for small hosts.")
@click.option("--channel-fd", type=int, hidden=True, help="Inherited socket to the process that starts this one.")
@click.option(
    "--unbound", is_flag=True, hidden=True, help="Continue when the process at the other end of --channel-fd ends."
)
def start(paths: Paths, daemonize: bool, single_process: bool, channel_fd: int | None, unbound: bool) -> None:
    """Start the node's daemons and keep them running.

    Stays in the foreground until Ctrl-C or "secmon stop". The configuration is checked first; a pass phrase of the
    API's TLS key is asked for on the terminal.

    Example:  secmon start --root /opt/secmon --daemonize

    Exit status: 0 stopped cleanly (with -d: running), 1 could not start, 2 wrong usage.
    """
    require_installation(paths)
    channel = ChildChannel(channel_fd) if channel_fd is not None else None
    lock = SupervisorLock(paths.root)
    if lock.held():
        raise _refused(channel, AlreadyRunning(paths.root, lock.holder(), stopping=phase(paths) == STOPPING))
    settings = _settings_or_fail(paths, channel, single_process=single_process)
    secrets = dict(channel.secrets) if channel else {}
    if settings.encrypted_key is not None and not secrets:
        secrets[KEY_PASSWORD] = ask_passphrase(paths.root, settings.encrypted_key)
    if daemonize:
        _start_detached(paths, secrets, single_process=single_process)
        return
    log_counters = set_up_process_log(paths.root, "secmon", settings.on_terminal().log)
    supervisor = Supervisor(
        paths,
        # In the background standard error is start.log, which nothing rotates: the daemons leave it alone.
        lambda: read_supervisor_settings(paths) if channel else read_supervisor_settings(paths).on_terminal(),
        secrets=secrets,
        single_process=single_process,
        channel=channel,
        bound=not unbound,
        log_counters=log_counters,
    )
    sys.exit(_run(supervisor, single_process))


def _refused(channel: ChildChannel | None, error: AlreadyRunning) -> AlreadyRunning:
    if channel is not None:
        channel.failed(str(error))
    return error


def _settings_or_fail(
    paths: Paths, channel: ChildChannel | None, *, single_process: bool = False
) -> SupervisorSettings:
    """The settings, or the start-up failure line on standard output and status 1 (conventions.md 11)."""
    try:
        settings = read_supervisor_settings(paths)
        if single_process:
            require_processes(paths, settings)
    except (SecmonError, StartError) as error:
        api = isinstance(error, ConfigError) and error.file.startswith(str(paths.api_config))
        failure = start_error(error)
        if channel is not None:
            channel.failed(str(failure))
        click.echo(failure.line("secmon-apid" if api else "secmon"))
        sys.exit(1)
    return settings


def _run(supervisor: Supervisor, single_process: bool) -> int:
    if not single_process:
        return asyncio.run(supervisor.run())
    import uvloop

    return uvloop.run(supervisor.run())


def _start_detached(paths: Paths, secrets: Mapping[str, str], *, single_process: bool) -> None:
    launched = launch(paths, secrets=secrets, bound=False, single_process=single_process)
    try:
        asyncio.run(launched.ready(_START_SECONDS))
    finally:
        launched.channel.close()
    click.echo(f"secmon runs in the background (process {launched.process.pid})")
    click.echo(f"Stop it: secmon stop --root {paths.root}")


def start_again(paths: Paths, *, single_process: bool) -> None:
    """Start a node that has stopped, in the background."""
    settings = _settings_or_fail(paths, None)
    key = settings.encrypted_key
    secrets = {} if key is None else {KEY_PASSWORD: ask_passphrase(paths.root, key)}
    _start_detached(paths, secrets, single_process=single_process)
