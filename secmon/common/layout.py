"""Creates the installation folder: folders, modes, owners and first files (manager.md 15, conventions.md 11.1)."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from secmon.common.agents.groups import AGENT_CONF, AGENT_CONF_TEXT, TEMPLATE
from secmon.common.agents.names import DEFAULT_GROUP
from secmon.common.atomic import write_file
from secmon.common.config.api import api_template
from secmon.common.config.cluster import ClusterSection, wrong_values
from secmon.common.config.main import AgentPorts, main_config_template
from secmon.common.config.options import LOCAL_TEMPLATE, internal_options_template
from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.common.shipped import FOLDERS, shipped_files

# (mode, owned by the product user instead of root, folders below the root; parents come first)
_FOLDERS: tuple[tuple[int, bool, str], ...] = (
    (0o750, False, "."),
    (0o750, False, "bin ruleset ruleset/sca ruleset/decoders ruleset/rules ruleset/lists"),
    (0o750, False, "active-response active-response/bin integrations"),
    (0o750, False, "api api/scripts"),
    (0o770, False, "api/configuration api/configuration/ssl api/configuration/security"),
    (0o770, True, "etc"),
    (0o770, False, "etc/shared etc/decoders etc/rules etc/lists etc/rootcheck"),
    (0o770, True, "etc/shared/default"),
    (0o700, True, "etc/cluster"),  # ours: private keys of the cluster
    (0o770, True, "logs"),
    (0o750, True, "logs/archives logs/alerts logs/firewall logs/api logs/cluster logs/secmon logs/audit"),
    (0o750, False, "queue"),
    (0o770, True, "queue/alerts queue/sockets queue/tasks queue/cluster queue/rids queue/router"),
    (
        0o750,
        True,
        "queue/diff queue/fim queue/fim/db queue/syscollector queue/logcollector queue/fts queue/db queue/events"
        " queue/events-local",
    ),
    (0o750, False, "var"),
    (0o770, False, "var/run var/upgrade var/db var/download"),
    (0o770, True, "var/multigroups"),
    (0o750, False, "backup backup/agents backup/db backup/shared"),
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


def create_layout(
    paths: Paths,
    *,
    cluster: ClusterSection | None = None,
    owner: tuple[int, int] | None = None,
    api_overrides: Mapping[str, object] | None = None,
    agent_ports: AgentPorts | None = None,
    before_main: Callable[[], None] = lambda: None,
) -> list[str]:
    """Create what is missing and return it, relative to the root; what exists is left as it is.

    The main configuration comes last, after ``before_main``: where it is, the installation is complete.

    ``owner`` is the uid and gid of the product; without it, or when the process is not root, ownership is not touched.
    ``cluster`` None makes a stand-alone node. ``api_overrides`` (dotted keys) stand uncommented in api.yaml. Modes do
    not depend on the umask. Raises ConfigError 2000 or 3004 for values that are not allowed, before anything is
    made, and OSError.
    """
    who = _Owner(owner if os.geteuid() == 0 else None)
    files = _files(paths, cluster, api_overrides or {}, agent_ports or AgentPorts())
    made = [
        name
        for mode, by_user, names in _FOLDERS
        for name in names.split()
        if _make_folder(paths.root / name, mode, who.of(by_user))
    ]
    for path, mode, by_user, data in files:
        if not os.path.lexists(path):
            if path == paths.main_config:
                before_main()
            uid, gid = who.of(by_user)
            write_file(path, data, mode, uid, gid)
            made.append(str(path.relative_to(paths.root)))
    return made


def update_ruleset(paths: Paths, owner: tuple[int, int] | None = None) -> list[str]:
    """Make the default ruleset of an installation that of this version; what was written or removed, by path.

    Files under ``etc`` are the users' and stay; lists that are new come there. Raises OSError.
    """
    uid, gid = _Owner(owner if os.geteuid() == 0 else None).of(False)
    files = {path: (mode, data) for path, mode, _, data in _ruleset(paths)}
    changed = []
    for path, (mode, data) in files.items():
        theirs = path.is_relative_to(paths.etc)
        if not path.exists() or (not theirs and path.read_bytes() != data):
            write_file(path, data, mode, uid, gid)
            changed.append(path)
    for name in FOLDERS:
        for path in (paths.root / "ruleset" / name).iterdir():
            if path not in files and path.is_file():
                path.unlink()
                changed.append(path)
    return sorted(str(path.relative_to(paths.root)) for path in changed)


def restore_folders(paths: Paths, names: Collection[str], owner: tuple[int, int] | None = None) -> None:
    """Make those of the folders ``names`` (relative to the root) that somebody removed. Raises OSError."""
    who = _Owner(owner if os.geteuid() == 0 else None)
    for mode, by_user, listed in _FOLDERS:
        for name in listed.split():
            if name in names:
                _make_folder(paths.root / name, mode, who.of(by_user))


def _make_folder(folder: Path, mode: int, owner: tuple[int | None, int | None]) -> bool:
    if folder.is_dir():
        return False
    # Closed until owner and mode are right; the root's own parents are ordinary folders.
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    uid, gid = owner
    if uid is not None and gid is not None:
        os.chown(folder, uid, gid)
    folder.chmod(mode)  # after the owner: a change of owner clears special bits
    return True


def _files(
    paths: Paths, cluster: ClusterSection | None, api_overrides: Mapping[str, object], agent_ports: AgentPorts
) -> list[tuple[Path, int, bool, bytes]]:
    """Path, mode, whether the product user owns it, and content of each first file."""
    for wrong in wrong_values(cluster) if cluster else ():
        raise ConfigError(str(paths.main_config), f"cluster.{wrong.key}", wrong.value, wrong.allowed, code=3004)
    main = main_config_template(cluster, agent_ports)
    texts = [
        (paths.api_config, 0o660, False, api_template(api_overrides)),
        (paths.internal_options, 0o640, False, internal_options_template()),
        (paths.local_internal_options, 0o640, False, LOCAL_TEMPLATE),
        (paths.shared / TEMPLATE, 0o660, True, AGENT_CONF_TEXT),
        (paths.shared / DEFAULT_GROUP / AGENT_CONF, 0o660, True, AGENT_CONF_TEXT),
        (paths.main_config, 0o660, False, main),
    ]
    return [*_ruleset(paths), *((path, mode, by_user, text.encode()) for path, mode, by_user, text in texts)]


def _ruleset(paths: Paths) -> Iterator[tuple[Path, int, bool, bytes]]:
    """The default ruleset; its lists also where users change them and the configuration names them."""
    for name, data in shipped_files().items():
        yield paths.root / "ruleset" / name, 0o640, False, data
        if name.startswith("lists/"):
            yield paths.etc / name, 0o660, True, data
