"""Creates the installation folder: folders, modes, owners and first files (manager.md 15, conventions.md 11.1).

Root works here in folders that the service user can write, so each folder is opened relative to its parent and no link
is followed.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from secmon.agents.groups.folders import AGENT_CONF, AGENT_CONF_TEXT, TEMPLATE
from secmon.agents.names import DEFAULT_GROUP
from secmon.common.errors import ConfigError
from secmon.common.file_io import write_in
from secmon.common.files.tree import OPEN_FOLDER, open_file, opened_folder
from secmon.common.paths import Paths
from secmon.config.api import api_template
from secmon.config.cluster import ClusterSection, wrong_values
from secmon.config.default_ruleset import FOLDERS, default_ruleset_files
from secmon.config.main import AgentPorts, main_config_template
from secmon.config.options import LOCAL_TEMPLATE, internal_options_template

# (mode, owned by the product user instead of root, folders below the root; parents come first)
_FOLDERS: tuple[tuple[int, bool, str], ...] = (
    (0o750, False, "."),
    (0o750, False, "bin ruleset ruleset/sca ruleset/decoders ruleset/rules ruleset/lists"),
    (0o750, False, "active-response active-response/bin integrations"),
    (0o750, False, "api api/scripts"),
    (0o750, False, "api/configuration"),  # api.yaml can make the daemons run as root, so only root may write it
    (0o770, False, "api/configuration/ssl api/configuration/security"),
    (0o770, True, "etc"),
    (0o770, False, "etc/shared etc/decoders etc/rules etc/lists etc/attack etc/advisories etc/rootcheck"),
    (0o770, True, "etc/shared/default"),
    (0o700, True, "etc/cluster"),  # ours: private keys of the cluster
    (0o770, True, "logs"),
    (0o750, True, "logs/archives logs/alerts logs/firewall logs/api logs/cluster logs/secmon logs/audit"),
    (0o770, False, "queue"),  # the daemons replace queue/agents-timestamp
    (0o770, True, "queue/alerts queue/sockets queue/tasks queue/cluster queue/rids queue/router"),
    (
        0o750,
        True,
        "queue/diff queue/fim queue/fim/db queue/syscollector queue/logcollector queue/fts queue/db queue/events"
        " queue/events-local queue/events-inventory queue/responses queue/outputs queue/alert-store",
    ),
    (0o700, True, "queue/outputs/alerts queue/outputs/undo"),  # for programs: alerts, and what is to be undone
    (0o750, False, "var"),
    (0o770, False, "var/run var/upgrade var/db var/download"),
    (0o770, True, "var/multigroups"),
    (0o750, False, "backup backup/db backup/shared"),
    (0o770, False, "backup/agents"),  # secmon-modulesd keeps copies of changed etc/client.keys there
    (0o750, True, "stats stats/totals stats/hourly-average stats/weekly-average"),
    (0o1770, False, "tmp"),
)


@dataclass(frozen=True)
class _Owner:
    """User and group of the product; None leaves everything to the user of the process."""

    ids: tuple[int, int] | None

    def of(self, by_user: bool) -> tuple[int | None, int | None]:
        """Ids for ``chown``: the product user or root, always with the product's group."""
        if self.ids is None:
            return None, None
        return (self.ids[0] if by_user else 0), self.ids[1]


def create_installation_files(
    paths: Paths,
    *,
    cluster: ClusterSection | None = None,
    owner: tuple[int, int] | None = None,
    api_overrides: Mapping[str, object] | None = None,
    agent_ports: AgentPorts | None = None,
    options: Mapping[str, int] | None = None,
    before_main: Callable[[], None] = lambda: None,
) -> list[str]:
    """Create what is missing and return it, relative to the root; existing files are not changed.

    The main configuration is written last, after ``before_main``: an installation that has it is complete.

    ``owner`` is the uid and gid of the product; without it, or when the process is not root, ownership is not touched.
    ``cluster`` None makes a stand-alone node. ``api_overrides`` (dotted keys) are written to api.yaml, ``options`` to
    local_internal_options.conf. Modes do not depend on the umask. Raises ConfigError 2000 or 3004 for
    values that are not allowed, before anything is made, and OSError.
    """
    who = _Owner(owner if os.geteuid() == 0 else None)
    files = _files(paths, cluster, api_overrides or {}, options or {}, agent_ports or AgentPorts())
    made = make_folders(paths, owner)
    for path, mode, by_user, data in files:
        if not os.path.lexists(path):
            if path == paths.main_config:
                before_main()
            _write(paths, path, data, mode, who.of(by_user))
            made.append(str(path.relative_to(paths.root)))
    return made


def make_folders(paths: Paths, owner: tuple[int, int] | None = None) -> list[str]:
    """Create the folders of an installation that are missing, and return them. Raises OSError."""
    who = _Owner(owner if os.geteuid() == 0 else None)
    return [
        name
        for mode, by_user, names in _FOLDERS
        for name in names.split()
        if _make_folder(paths.root, name, mode, who.of(by_user))
    ]


_ROOTS_FILES = frozenset(
    {"etc/ossec.conf", "etc/internal_options.conf", "etc/local_internal_options.conf", "api/configuration/api.yaml"}
)
_ROOTS_FOLDERS = ("ruleset/", "active-response/", "integrations/", "bin/")


def give_to(paths: Paths, owner: tuple[int, int]) -> None:
    """Give an installation that belongs to root to the product's user and group, as if they had existed before it.

    No link is followed. Raises OSError.
    """
    known = {name: by_user for _, by_user, names in _FOLDERS for name in names.split()}
    modes = {name: mode for mode, _, names in _FOLDERS for name in names.split()}
    who = _Owner(owner)
    for folder, inner, files, descriptor in os.fwalk(paths.root, follow_symlinks=False):
        name = os.path.relpath(folder, paths.root)
        if name == ".":
            inner[:] = [each for each in inner if each in known]  # others are not of the product
        for file in files:
            path = file if name == "." else f"{name}/{file}"
            by_user = path not in _ROOTS_FILES and not path.startswith(_ROOTS_FOLDERS)
            uid, gid = who.of(by_user)
            os.chown(file, uid or 0, gid or 0, dir_fd=descriptor, follow_symlinks=False)
        uid, gid = who.of(known.get(name, True))
        os.fchown(descriptor, uid or 0, gid or 0)
        if name in modes:
            os.fchmod(descriptor, modes[name])


def update_ruleset(paths: Paths, owner: tuple[int, int] | None = None) -> list[str]:
    """Replace the default ruleset of an installation by that of this version; returns the paths written or removed.

    Files under ``etc`` belong to the users and are kept; new lists are added there. Raises OSError.
    """
    restore_folders(paths, [f"ruleset/{name}" for name in FOLDERS], owner)  # an older version may lack some
    who = _Owner(owner if os.geteuid() == 0 else None).of(False)
    files = {path: (mode, data) for path, mode, _, data in _ruleset(paths)}
    changed = []
    for path, (mode, data) in files.items():
        there = _content(paths, path)
        if there is None or (there != data and not path.is_relative_to(paths.etc)):
            _write(paths, path, data, mode, who)
            changed.append(path)
    for name in FOLDERS:
        changed += _remove_others(paths.root, paths.root / "ruleset" / name, files)
    return sorted(str(path.relative_to(paths.root)) for path in changed)


def _content(paths: Paths, path: Path) -> bytes | None:
    """The content of ``path``; empty for another kind of entry, ``None`` when it does not exist. Raises OSError."""
    with _below(paths.root, path) as (folder, name):
        try:
            with open(open_file(folder, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError:
            return b""


def _remove_others(root: Path, folder: Path, kept: Collection[Path]) -> Iterator[Path]:
    """Remove the files in ``folder`` that are not among ``kept``, and return their paths. Raises OSError."""
    with _below(root, folder / "any") as (descriptor, _):
        for name in os.listdir(descriptor):
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if folder / name not in kept and not stat.S_ISDIR(found.st_mode):
                os.unlink(name, dir_fd=descriptor)
                yield folder / name


def restore_folders(paths: Paths, names: Collection[str], owner: tuple[int, int] | None = None) -> None:
    """Create those of the folders ``names`` (relative to the root) that are missing. Raises OSError.

    Folders of an older version get the rights of the group that this version needs.
    """
    who = _Owner(owner if os.geteuid() == 0 else None)
    for mode, by_user, listed in _FOLDERS:
        for name in listed.split():
            if name in names:
                _make_folder(paths.root, name, mode, who.of(by_user))


def _make_folder(root: Path, name: str, mode: int, owner: tuple[int | None, int | None]) -> bool:
    """Whether it was created. An existing folder gets the rights of the group that it lacks. Raises OSError."""
    if name == ".":
        root.parent.mkdir(parents=True, exist_ok=True)  # the root's own parents are ordinary folders
        place = root.resolve()
        above = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _make_in(above, place.name, mode, owner)
        finally:
            os.close(above)
    with _below(root, root / name) as (above, last):
        return _make_in(above, last, mode, owner)


@contextmanager
def _below(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """Descriptor of the parent folder of ``path``, and its last name. An OSError has the whole path."""
    try:
        with opened_folder(root, path.parent.relative_to(root).as_posix()) as folder:
            yield folder, path.name
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _make_in(above: int, name: str, mode: int, owner: tuple[int | None, int | None]) -> bool:
    made = _mkdir(name, above)
    folder = os.open(name, OPEN_FOLDER, dir_fd=above)
    try:
        if made:
            if os.listdir(folder):  # the service user has put another one in its place
                raise FileExistsError(errno.EEXIST, "it was replaced while it was being made", name)
            _set_owner_and_mode(folder, mode, owner)
        else:
            _let_the_group_in(folder, mode, owner)
    finally:
        os.close(folder)
    return made


def _mkdir(name: str, parent: int) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)  # no access until owner and mode are set
    except FileExistsError:
        return False
    return True


def _set_owner_and_mode(folder: int, mode: int, owner: tuple[int | None, int | None]) -> None:
    uid, gid = owner
    if uid is not None and gid is not None:
        os.fchown(folder, uid, gid)
    os.fchmod(folder, mode)  # after the owner: a change of owner clears special bits


def _let_the_group_in(folder: int, mode: int, owner: tuple[int | None, int | None]) -> None:
    status = os.fstat(folder)
    missing = mode & 0o070 & ~status.st_mode
    if missing and owner[1] == status.st_gid:
        os.fchmod(folder, status.st_mode & 0o7777 | missing)


def _write(paths: Paths, path: Path, data: bytes, mode: int, owner: tuple[int | None, int | None]) -> None:
    with _below(paths.root, path) as (folder, name):
        write_in(folder, name, data, mode, *owner)


def _files(
    paths: Paths,
    cluster: ClusterSection | None,
    api_overrides: Mapping[str, object],
    options: Mapping[str, int],
    agent_ports: AgentPorts,
) -> list[tuple[Path, int, bool, bytes]]:
    """Path, mode, whether the product user owns it, and content of each first file."""
    for wrong in wrong_values(cluster) if cluster else ():
        raise ConfigError(str(paths.main_config), f"cluster.{wrong.key}", wrong.value, wrong.allowed, code=3004)
    main = main_config_template(cluster, agent_ports)
    chosen = "".join(f"{name}={value}\n" for name, value in options.items())
    texts = [
        (paths.api_config, 0o640, False, api_template(api_overrides)),
        (paths.internal_options, 0o640, False, internal_options_template()),
        (paths.local_internal_options, 0o640, False, LOCAL_TEMPLATE + chosen),
        (paths.shared / TEMPLATE, 0o660, True, AGENT_CONF_TEXT),
        (paths.shared / DEFAULT_GROUP / AGENT_CONF, 0o660, True, AGENT_CONF_TEXT),
        (paths.main_config, 0o660, False, main),
    ]
    return [*_ruleset(paths), *((path, mode, by_user, text.encode()) for path, mode, by_user, text in texts)]


def _ruleset(paths: Paths) -> Iterator[tuple[Path, int, bool, bytes]]:
    """The default ruleset; its lists also where users change them and the configuration names them."""
    for name, data in default_ruleset_files().items():
        yield paths.root / "ruleset" / name, 0o640, False, data
        if name.startswith("lists/"):
            yield paths.etc / name, 0o660, True, data
