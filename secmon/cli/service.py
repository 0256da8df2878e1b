"""``secmon start|stop|restart|reload|status``: the node's processes."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from secmon.cli.group import echo_json, json_option, require_installation, root_option
from secmon.cli.passphrase import ask_passphrase
from secmon.common.daemon_names import DAEMONS
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths
from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.control_sockets import SupervisorClient
from secmon.daemons.daemon import KEY_PASSWORD, StartError, start_error
from secmon.daemons.launch import launch
from secmon.daemons.process_log import set_up_process_log
from secmon.daemons.supervisor import Supervisor
from secmon.daemons.supervisor_lock import AlreadyRunning, SupervisorLock
from secmon.daemons.supervisor_settings import LEADER, SupervisorSettings, read_supervisor_settings, require_processes

_START_SECONDS = 180.0
_DAEMON_SECONDS = 60.0
"""After a restart, the time for daemons that did not start at once."""
_PHASE_SECONDS = 2.0
"""Time for a supervisor to report its phase."""
_SECONDS = click.IntRange(1, 86_400)
STOPPING = "stopping"


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
        raise _refused(channel, AlreadyRunning(paths.root, lock.holder(), stopping=_phase(paths) == STOPPING))
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


@click.command(short_help="Stop the node cleanly.")
@root_option
@click.option("--timeout", type=_SECONDS, default=120, show_default=True, help="Seconds to wait for the end.")
def stop(paths: Paths, timeout: int) -> None:
    """Stop the node: requests in flight are finished, then all daemons end.

    Example:  secmon stop --root /opt/secmon

    Exit status: 0 stopped (or was not running), 1 still running after --timeout seconds.
    """
    require_installation(paths)
    lock = SupervisorLock(paths.root)
    if not lock.held():
        click.echo(f"secmon is not running in {paths.root}")
        return
    _ask_to_stop(paths, lock)
    if not wait_for(lambda: not lock.held(), "Stopping", timeout):
        raise click.ClickException(f"secmon still runs in {paths.root} (process {lock.holder()})")
    click.echo(f"secmon has stopped in {paths.root}")


def _ask_to_stop(paths: Paths, lock: SupervisorLock) -> None:
    """By the control socket, or by a signal when the supervisor does not answer."""
    try:
        _ask(paths, "stop")
    except SecmonError:
        if not lock.end_holder() and lock.held():
            raise click.ClickException(
                f"process {lock.holder() or 'unknown'} holds {paths.root}, and it is no supervisor that "
                "this user may end; end it by hand"
            ) from None


@click.command(short_help="Restart the daemons, for a changed configuration.")
@root_option
@click.option("--timeout", type=_SECONDS, default=180, show_default=True, help="Seconds to wait for the daemons.")
def restart(paths: Paths, timeout: int) -> None:
    """Restart the daemons of a running node, for instance after a change of its configuration.

    The configuration is checked first: if it is not valid, nothing is stopped. If the node is being stopped, the
    command waits for that and starts it in the background.

    Example:  secmon restart --root /opt/secmon

    Exit status: 0 running again, 1 refused, not running, or a daemon (it is named) did not start.
    """
    require_running(paths)
    before = _supervisor(paths)
    if before.get("phase") == STOPPING:
        _start_after_stop(paths, timeout, single_process=bool(before.get("single_process")))
        return
    end = time.monotonic() + timeout
    _ask(paths, "restart")
    if not wait_for(lambda: _restarted(paths), "Restarting", timeout):
        raise click.ClickException("the restart has not finished; see: secmon status")
    up = wait_for(lambda: not _down(paths), "Starting", min(_DAEMON_SECONDS, end - time.monotonic()))
    _print_states(paths, everything=False)
    if not up and (down := _down(paths)):
        raise click.ClickException(f"not started: {', '.join(down)}; it is tried again, see {paths.logs}")


def _down(paths: Paths) -> list[str]:
    """The node's daemons that do not run."""
    status = _ask(paths, "status")
    return [one["daemon"] for one in status["processes"] if status["daemons"].get(one["daemon"]) != "running"]


def _start_after_stop(paths: Paths, timeout: int, *, single_process: bool) -> None:
    """Wait for the end of the node that stops, then start it as it was."""
    click.echo(f"secmon is being stopped in {paths.root}; it is started again when it has stopped")
    lock = SupervisorLock(paths.root)
    if not wait_for(lambda: not lock.held(), "Stopping", timeout):
        raise click.ClickException(f"secmon has not stopped in {paths.root} (process {lock.holder()})")
    settings = _settings_or_fail(paths, None)
    key = settings.encrypted_key
    secrets = {} if key is None else {KEY_PASSWORD: ask_passphrase(paths.root, key)}
    _start_detached(paths, secrets, single_process=single_process)


def _restarted(paths: Paths) -> bool:
    status = _ask(paths, "status")
    if status["phase"] == STOPPING:
        raise click.ClickException(f"secmon was stopped while it restarted; see: secmon status --root {paths.root}")
    return bool(status["phase"] == "running" and not status["restart_pending"])


@click.command(short_help="Reload the settings that need no restart.")
@root_option
def reload(paths: Paths) -> None:
    """Reload the settings that daemons can change while they run (log levels, TLS certificate).

    Example:  secmon reload --root /opt/secmon

    Exit status: 0 requested, 1 not running.
    """
    require_running(paths)
    _ask(paths, "reload")
    click.echo("The reload was requested; see the log for its result.")


@click.command(short_help="Show the state of each daemon.")
@root_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Also daemons that this node does not run.")
def status(paths: Paths, as_json: bool, everything: bool) -> None:
    """Show the state of each daemon: running, starting, restarting, failed or stopped.

    Example:  secmon status --root /opt/secmon --json

    Exit status: 0 the node runs, or is being stopped, then with a message on standard error; 1 it does not run.
    """
    require_installation(paths)
    if as_json:
        echo_json([{"daemon": daemon, "status": state} for daemon, state in _states(paths).items()])
    else:
        _print_states(paths, everything=everything)
    lock = SupervisorLock(paths.root)
    if not lock.held():
        sys.exit(1)
    if _phase(paths) == STOPPING:
        click.echo(f"secmon is being stopped in {paths.root} (process {lock.holder()})", err=True)


def _states(paths: Paths) -> Mapping[str, str]:
    return asyncio.run(SupervisorClient(paths, daemons=(*DAEMONS, LEADER)).checked_states())


def _print_states(paths: Paths, *, everything: bool) -> None:
    states = _states(paths)
    shown = states if everything else {name: state for name, state in states.items() if state != "stopped"}
    for daemon, state in shown.items():
        click.echo(f"{daemon:20}{state}")
    if not shown and not SupervisorLock(paths.root).held():
        click.echo(f"secmon is not running in {paths.root}; start it: secmon start --root {paths.root}")


def require_running(paths: Paths) -> None:
    """Fail with a message if the node does not run."""
    require_installation(paths)
    if not SupervisorLock(paths.root).held():
        raise click.ClickException(f"secmon is not running in {paths.root}; start it: secmon start --root {paths.root}")


def _ask(paths: Paths, command: str) -> Any:
    return asyncio.run(SupervisorClient(paths).send(command))


def _phase(paths: Paths) -> str:
    """The phase of the supervisor; empty without an answer in time."""
    return str(_supervisor(paths).get("phase", ""))


def _supervisor(paths: Paths) -> Mapping[str, Any]:
    """The status of the supervisor; empty without an answer in time."""
    try:
        found: Mapping[str, Any] = asyncio.run(SupervisorClient(paths, timeout=_PHASE_SECONDS).send("status"))
    except SecmonError:
        return {}
    return found


def wait_for(condition: Callable[[], bool], what: str, seconds: float) -> bool:
    """Poll until ``condition`` holds or ``seconds`` have passed; a terminal shows the remaining time."""
    end = time.monotonic() + seconds
    terminal = sys.stderr.isatty()
    while not condition():
        if time.monotonic() >= end:
            return False
        if terminal:
            click.echo(f"\r{what} ... {max(0, end - time.monotonic()):3.0f} s left ", nl=False, err=True)
        time.sleep(0.1)
    if terminal:
        click.echo("\r\033[K", nl=False, err=True)
    return True
