"""``secmon service``: the node as a service of systemd."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from secmon.cli.group import LazyGroup, echo_json, json_option, require_installation, root_option
from secmon.common.paths import Paths
from secmon.common.privileges import as_root, root_started
from secmon.daemons.service_unit import ServiceError, Systemd, install_service, remove_service, service_state
from secmon.daemons.supervisor_lock import SupervisorLock


@click.group(
    cls=LazyGroup, lazy={"upgrade": "secmon.cli.upgrade:upgrade"}, short_help="Have systemd run the node; upgrade it."
)
def service() -> None:
    """Have systemd start the node with the host, and restart it when it fails.

    Example:  secmon service install --root /opt/secmon
    """


@service.command(short_help="Install the service, and make its user.")
@root_option
@click.option("--no-start", is_flag=True, help="Do not start it now.")
def install(paths: Paths, no_start: bool) -> None:
    """Make the user secmon, unless the host has it, give the installation to it, and install, enable and start a unit
    of systemd that gives the daemons few rights on the host. Run it again after an upgrade of secmon.

    A failure leaves the unit as it was before. Changes of yours belong into a drop-in: systemctl edit secmon

    Example:  secmon service install --root /opt/secmon

    Exit status: 0 installed, 1 failed, 2 wrong usage.
    """
    _require_root()
    require_installation(paths)
    with _explained():
        systemd = Systemd()
        systemd.require()
        if SupervisorLock(paths.root).held() and not (systemd.unit.exists() and _is_active(paths, systemd)):
            raise ServiceError(f"secmon runs in {paths.root}; stop it first: secmon stop --root {paths.root}")
        with as_root():
            for line in install_service(paths, systemd, start=not no_start):
                click.echo(line)


@service.command(short_help="Stop the service and remove its unit.")
@root_option
def remove(paths: Paths) -> None:
    """Stop and disable the service, and remove its unit. The installation and the user secmon remain.

    Example:  secmon service remove

    Exit status: 0 removed, or not installed, 1 failed, 2 wrong usage.
    """
    _require_root()
    with _explained():
        removed = remove_service(Systemd())
    click.echo(f"Removed. {paths.root} and its user remain." if removed else "It is not installed.")


@service.command(short_help="Show whether the service is installed and runs.")
@root_option
@json_option
def status(paths: Paths, as_json: bool) -> None:
    """Show whether the service is installed, enabled and active, and whether its unit is that of this version.

    Example:  secmon service status

    Exit status: 0 active, 1 not, or no systemd, 2 wrong usage.
    """
    with _explained():
        state = service_state(paths, Systemd())
    if as_json:
        echo_json(state._asdict())
    else:
        click.echo(f"installed: {'yes' if state.installed else 'no'}")
        click.echo(f"enabled: {state.enabled}")
        click.echo(f"active: {state.active}")
        if state.installed and not state.current:
            click.echo("The unit is not that of this version and folder: run secmon service install again.")
    sys.exit(0 if state.active == "active" else 1)


def _is_active(paths: Paths, systemd: Systemd) -> bool:
    return service_state(paths, systemd).active == "active"


def _require_root() -> None:
    if not root_started():
        raise click.ClickException("run this as root: it makes a user and a unit of systemd")


@contextmanager
def _explained() -> Iterator[None]:
    """Errors of the service as those of the command."""
    try:
        yield
    except ServiceError as error:
        raise click.ClickException(str(error)) from error
