"""The node as a service of systemd: its user, its unit, and what systemd says of it."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, Account, find_account
from secmon.daemons.installation_files import give_to
from secmon.daemons.releases import link_in_use

UNIT = "secmon.service"
_TEMPLATE = Path(__file__).with_name(UNIT)
_SECONDS = 200.0
"""For a start: longer than TimeoutStartSec of the unit."""


class ServiceError(Exception):
    """A sentence for the operator."""


class Systemd(NamedTuple):
    """Where systemd is on this host; tests have their own."""

    units: Path = Path("/etc/systemd/system")
    booted: Path = Path("/run/systemd/system")
    systemctl: str = "systemctl"
    useradd: str = "useradd"

    @property
    def unit(self) -> Path:
        return self.units / UNIT

    def require(self) -> None:
        """Raises ServiceError on a host that systemd does not manage."""
        if not self.booted.is_dir() or shutil.which(self.systemctl) is None:
            raise ServiceError(
                "this host is not managed by systemd: start the node with secmon start --daemonize, or by the service "
                "manager that it has; nothing was changed"
            )

    def run(self, *arguments: str) -> str:
        """Its output. Raises ServiceError with what it said."""
        return _run([self.systemctl, *arguments])


class ServiceState(NamedTuple):
    """What systemd says; ``current``: the unit is the one that this version would write."""

    installed: bool
    current: bool
    enabled: str
    active: str


def unit_text(paths: Paths) -> str:
    """The unit for the installation, started by this copy of secmon. Raises ServiceError."""
    link = link_in_use()
    program = Path(sys.executable).with_name("secmon") if link is None else link / "bin/secmon"
    command = str(program) if program.exists() else f"{sys.executable} -m secmon.cli"
    if any(not each.isprintable() or set(each) & set(" \t\"'\\%$") for each in (str(paths.root), str(program))):
        raise ServiceError("the paths of the installation and of secmon must be without spaces, quotes, %, $ and \\")
    return _TEMPLATE.read_text().replace("{root}", str(paths.root)).replace("{program}", command)


def install_service(paths: Paths, systemd: Systemd, *, start: bool) -> list[str]:
    """Make the user, give the installation to it, install the unit; what was done. Requires root, and a stopped node.

    After a failure the unit is as it was. The user and its files remain, which harms nothing, and the command can be
    repeated. Raises ServiceError, OSError.
    """
    systemd.require()
    text = unit_text(paths)
    done = []
    account = find_account()
    if account is None:
        account = _make_user(systemd, paths)
        done.append(f"made the user {account.name}")
    if paths.etc.stat().st_uid != account.uid:
        give_to(paths, (account.uid, account.gid))
        done.append(f"gave {paths.root} to {account.name}")
    before = systemd.unit.read_bytes() if systemd.unit.exists() else None
    with ExitStack() as undo:
        undo.callback(_bring_back, systemd, before)
        write_file(systemd.unit, text.encode(), 0o644)
        systemd.run("daemon-reload")
        systemd.run("enable", *(["--now"] if start else []), UNIT)
        undo.pop_all()
    return [*done, f"wrote {systemd.unit}", "enabled and started it" if start else "enabled it"]


def remove_service(systemd: Systemd) -> bool:
    """Stop and disable the service, remove its unit; whether there was one. Raises ServiceError, OSError."""
    systemd.require()
    if not systemd.unit.exists():
        return False
    systemd.run("disable", "--now", UNIT)
    systemd.unit.unlink()
    systemd.run("daemon-reload")
    return True


def service_state(paths: Paths, systemd: Systemd) -> ServiceState:
    """Raises ServiceError."""
    systemd.require()
    shown = dict(
        line.split("=", 1)
        for line in systemd.run("show", "--property=UnitFileState,ActiveState", UNIT).splitlines()
        if "=" in line
    )
    installed = systemd.unit.exists()
    current = installed and systemd.unit.read_text() == unit_text(paths)
    return ServiceState(installed, current, shown.get("UnitFileState") or "no", shown.get("ActiveState") or "unknown")


def _make_user(systemd: Systemd, paths: Paths) -> Account:
    shell = ["--shell", "/usr/sbin/nologin", "--home-dir", str(paths.root), "--no-create-home"]
    _run([systemd.useradd, "--system", "--user-group", *shell, SERVICE_USER])
    account = find_account()
    if account is None:
        raise ServiceError(f"useradd has made no user {SERVICE_USER}")
    return account


def _bring_back(systemd: Systemd, before: bytes | None) -> None:
    if before is None:
        _try(systemd, "disable", UNIT)
        systemd.unit.unlink(missing_ok=True)
    else:
        write_file(systemd.unit, before, 0o644)
    _try(systemd, "daemon-reload")


def _try(systemd: Systemd, *arguments: str) -> None:
    try:
        systemd.run(*arguments)
    except ServiceError:
        return  # the failure that is being undone is the one to report


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except OSError as error:
        raise ServiceError(f"{command[0]} cannot be run: {os_text(error)}") from error
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"{' '.join(command)} has not ended within {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise ServiceError(f"{' '.join(command)} failed: {said}")
    return done.stdout
