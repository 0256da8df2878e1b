"""``secmon stop|restart|reload|status``: a node that was started."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from secmon.cli.group import echo_json, json_option, require_installation, root_option
from secmon.common.daemon_names import DAEMONS, LEADER
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.control_sockets import SupervisorClient
from secmon.daemons.supervisor_lock import SupervisorLock

_DAEMON_SECONDS = 60.0
"""After a restart, the time for daemons that did not start at once."""
_PHASE_SECONDS = 2.0
"""Time for a supervisor to report its phase."""
_SECONDS = click.IntRange(1, 86_400)
STOPPING = "stopping"


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
    from secmon.cli.start import start_again  # not before: it imports the supervisor, which few commands need

    start_again(paths, single_process=single_process)


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
    if phase(paths) == STOPPING:
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


def phase(paths: Paths) -> str:
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
