"""``secmon service upgrade``: another release of secmon for this node, with checks before and a way back."""

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import click

from secmon import __version__
from secmon.backup.encryption import read_head
from secmon.backup.fault import BackupError
from secmon.cli.group import require_installation, root_option
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.cluster.rpc.version import compatible, spoken
from secmon.common.clock import Clock, SystemClock
from secmon.common.paths import Paths
from secmon.common.privileges import as_root
from secmon.common.sqlite.files import set_aside
from secmon.common.sqlite.migration import copies_of
from secmon.config.main import load_main_config
from secmon.daemons.releases import PREVIOUS, Links, ReleaseError, Releases, link_in_use, run
from secmon.daemons.service_unit import UNIT, ServiceError, Systemd, service_state
from secmon.daemons.supervisor_lock import SupervisorLock

_BACKUP_AGE = timedelta(days=1)
_SECONDS, _PAUSE_SECONDS = 180, 1.0
"""Time to get healthy, at least when it goes back; between two looks."""
_SPARE_BYTES = 256 << 20
_VERSIONS = "import secmon, secmon.cluster.rpc.version as v; print(secmon.__version__, v.PROTOCOL, v.MIN_PROTOCOL)"
_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)


@click.command(short_help="Upgrade this node to the release of a wheel, or go back.")
@click.argument("wheel", required=False, type=_FILE)
@root_option
@click.option("--back", is_flag=True, help="Use the release of before again.")
@click.option("--backup", type=_FILE, help="Backup of this master, a day old at most: secmon backup FILE.")
@click.option("--without-backup", is_flag=True, help="Upgrade a master without one.")
@click.option("--check", is_flag=True, help="Make the checks and install beside; switch nothing.")
@click.option(
    "--seconds", type=click.IntRange(10, 3600), default=_SECONDS, show_default=True, help="Time to get healthy."
)
@click.option("--pip-option", "pip_options", multiple=True, help="For pip, such as --find-links=DIR; may be repeated.")
def upgrade(
    wheel: Path | None,
    paths: Paths,
    back: bool,
    backup: Path | None,
    without_backup: bool,
    check: bool,
    seconds: int,
    pip_options: tuple[str, ...],
) -> None:
    """Upgrade this node, which runs, to the release in WHEEL. Go on with the next node when it has ended.

    Before anything changes, the node is examined (secmon doctor), a master must have a backup, and the release is
    installed beside the one in use, where it must understand the link, the configuration and the stores. Then the node
    stops, a link is switched, and the node starts. If it is not healthy and in the cluster within --seconds, the link
    is switched back, stores that were migrated are put back as they were, and the node runs as before.

    The program must be installed as docs/upgrade-secmon.md says: /opt/secmon-releases/current is a link.

    \b
    Examples:
      secmon service upgrade secmon-0.4.0-py3-none-any.whl --check --without-backup
      secmon service upgrade secmon-0.4.0-py3-none-any.whl --backup /backups/m1.secmon
      secmon service upgrade --back

    Exit status: 0 upgraded, 1 not: the node runs as before, or it is said what is wrong, 2 wrong usage.
    """
    if (wheel is None) != back:
        raise click.UsageError("name the wheel, or give --back")
    require_installation(paths)
    try:
        releases = _releases()
        change = _Change(paths, releases, _manager(paths, releases, must_run=not back), seconds)
        present = releases.links()
        if wheel is None:
            release = _previous(present)
        else:
            _require_backup(paths, backup, without_backup)
            _examine(paths, releases)
            click.echo(f"Installing {wheel.name} beside {present.current.name} ...")
            with as_root():
                release = releases.make(wheel, pip_options)
        if release == present.current:
            raise ReleaseError(f"{release.name} is the release in use")
        click.echo(_accepted(release, paths))
        if check:
            click.echo(f"{release} is ready; nothing was switched.")
        else:
            change.make(release)
    except (ReleaseError, ServiceError) as error:
        raise click.ClickException(str(error)) from error


def _releases() -> Releases:
    link = link_in_use()
    if link is None:
        raise ReleaseError("this program is not installed below a link named current; see docs/upgrade-secmon.md")
    with as_root():
        return Releases(link)


def _previous(links: Links) -> Path:
    if links.previous is None or not links.previous.is_dir():
        raise ReleaseError(f"there is no release of before: no link named {PREVIOUS}")
    return links.previous


def _examine(paths: Paths, releases: Releases) -> None:
    """Raises ReleaseError for what no upgrade is made with."""
    _call(_secmon(releases.link, "doctor", "--quiet", "--root", str(paths.root)))
    wanted = 2 * sum(each.stat().st_size for each in releases.links().current.rglob("*") if each.is_file())
    for folder, needed in ((releases.folder, wanted), (paths.root, 2 * sum(map(_size, _stores(paths))))):
        if shutil.disk_usage(folder).free < needed + _SPARE_BYTES:
            raise ReleaseError(f"{folder} needs {(needed + _SPARE_BYTES) >> 20} MiB of free disk for an upgrade")


def _require_backup(paths: Paths, backup: Path | None, without_backup: bool) -> None:
    """Of a master. Raises ReleaseError."""
    section = load_main_config(paths).cluster
    if (not section.disabled and current_cluster(paths, section).is_worker) or without_backup:
        return
    if backup is None:
        raise ReleaseError("this is a master: make a backup (secmon backup FILE) and name it, --backup FILE")
    with as_root(), backup.open("rb") as archive:
        made = os.fstat(archive.fileno()).st_mtime
        try:
            read_head(archive)
        except BackupError as error:
            raise ReleaseError(f"{backup}: {error}") from error
    if SystemClock().now().timestamp() - made > _BACKUP_AGE.total_seconds():
        raise ReleaseError(f"{backup} is older than a day; make another one: secmon backup FILE")


def _accepted(release: Path, paths: Paths) -> str:
    """What the release is. Raises ReleaseError when it understands this node's link, configuration or stores not."""
    version, protocol, oldest = _call([str(release / "bin/python"), "-c", _VERSIONS]).split()
    if not compatible(int(protocol), int(oldest)):
        raise ReleaseError(
            f"{version} speaks {spoken(int(protocol), int(oldest))} of the link, this cluster does not; "
            "see docs/upgrade-secmon.md"
        )
    try:
        found = _call(_secmon(release, "doctor", "--json", "--root", str(paths.root)))
    except ReleaseError as error:
        found = str(error)  # of problems of the host it was spoken before
    try:
        findings = json.loads(found)["data"]["findings"]
    except (ValueError, KeyError) as error:
        raise ReleaseError(f"{version} cannot be run: {found}") from error
    for finding in findings:
        if finding["check"] == "configuration and stores" and finding["state"] == "problem":
            raise ReleaseError(f"{version} would not start: {finding['text']}; see docs/upgrade-secmon.md")
    return f"{version} understands the configuration, the stores and the nodes of {__version__}."


class _Manager(NamedTuple):
    """How the node is stopped and started. Both raise ReleaseError or ServiceError."""

    stop: Callable[[], object]
    start: Callable[[], object]


def _manager(paths: Paths, releases: Releases, *, must_run: bool) -> _Manager:
    """Systemd where it runs the node, else its own supervisor. Raises ReleaseError for a node that does not run."""
    systemd, root = Systemd(), str(paths.root)
    if systemd.booted.is_dir() and systemd.unit.exists():
        state = service_state(paths, systemd)
        if state.active == "active" and not state.current:
            raise ReleaseError("the unit is not that of this version: run secmon service install first")
        if state.current and (state.active == "active" or not must_run):
            return _Manager(lambda: _systemctl(systemd, "stop"), lambda: _systemctl(systemd, "start"))
    if must_run and not SupervisorLock(paths.root).held():
        raise ReleaseError(f"the node does not run: secmon start --root {root}")
    return _Manager(
        lambda: _call(_secmon(releases.link, "stop", "--root", root)),
        lambda: _call(_secmon(releases.link, "start", "--daemonize", "--root", root)),
    )


class _Change:
    """The change of the release that a node runs."""

    def __init__(self, paths: Paths, releases: Releases, manager: _Manager, seconds: float) -> None:
        self._paths, self._releases, self._manager, self._seconds = paths, releases, manager, seconds
        self._clustered = not load_main_config(paths).cluster.disabled

    def make(self, release: Path) -> None:
        """Run ``release``, or the present one as before. Raises ReleaseError in the second case."""
        before, copies = self._releases.links(), set(_copies(self._paths))
        click.echo(f"Stopping the node, which runs {before.current.name} ...")
        self._manager.stop()
        try:
            with as_root():
                self._releases.switch(release)
            self._start(release, self._seconds)
        except BaseException as error:  # an interruption too: the node must not stay as it is
            click.echo(
                f"{release.name}: {error or type(error).__name__}\nGoing back to {before.current.name} ...", err=True
            )
            self._go_back(before, copies)
            raise ReleaseError(f"not upgraded; the node runs {before.current.name} as before") from error
        click.echo(f"The node runs {release.name}. Back to {before.current.name}: secmon service upgrade --back")

    def _start(self, release: Path, seconds: float) -> None:
        """Raises ReleaseError for a node that does not start, or is not healthy in time."""
        click.echo(f"Starting the node with {release.name} ...")
        self._manager.start()
        end = time.monotonic() + seconds
        while trouble := self._trouble():
            if time.monotonic() > end:
                raise ReleaseError(trouble)
            time.sleep(_PAUSE_SECONDS)

    def _trouble(self) -> str:
        """Why the node is not healthy; empty when it is."""
        root = str(self._paths.root)
        try:
            daemons = json.loads(_call(_secmon(self._releases.link, "status", "--json", "--root", root)))["data"]
            down = [f"{each['daemon']} is {each['status']}" for each in daemons if each["status"] not in _SETTLED]
            if self._clustered and not down:
                _call(_secmon(self._releases.link, "cluster", "status", "--root", root))
        except ReleaseError as error:
            return str(error)
        return ", ".join(down)

    def _go_back(self, before: Links, copies: set[Path]) -> None:
        """Raises ReleaseError when the release of before does not start either."""
        if SupervisorLock(self._paths.root).held():
            self._manager.stop()
        for line in put_back(self._paths, copies, SystemClock()):
            click.echo(line, err=True)
        with as_root():
            self._releases.put(before)
        self._start(before.current, max(self._seconds, _SECONDS))


_SETTLED = ("running", "stopped")
"""States of daemons that run, and of those that this node does not run."""


def _call(command: list[str]) -> str:
    """A program of the operator's, which takes the rights that it needs itself. Raises ReleaseError."""
    with as_root():
        return run(command)


def _systemctl(systemd: Systemd, action: str) -> None:
    with as_root():
        systemd.run(action, UNIT)


def _secmon(release: Path, *arguments: str) -> list[str]:
    return [str(release / "bin/secmon"), *arguments]


def _stores(paths: Paths) -> tuple[Path, ...]:
    return (paths.security_db, paths.agents_db, paths.inventory_db, paths.tasks_db)


def _size(store: Path) -> int:
    return store.stat().st_size if store.exists() else 0


def _copies(paths: Paths) -> list[Path]:
    return [copy for store in _stores(paths) for copy in copies_of(store)]


def put_back(paths: Paths, known: set[Path], clock: Clock) -> Iterator[str]:
    """Undo migrations: put the copies back that are not ``known``; a line for each. The node does not run."""
    for store in _stores(paths):
        for copy in [each for each in copies_of(store) if each not in known][:1]:  # the first: as it was before all
            kept = set_aside(store, clock)
            shutil.copy2(copy, store)
            store.chmod(stat.S_IMODE(kept.stat().st_mode))
            yield f"{store} is as before its migration; that of the other release is kept as {kept}."
