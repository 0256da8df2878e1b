"""The daemons that a supervisor runs, and how: read from the node's configuration, which is validated."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from secmon.cluster.store_checks import Inspection, inspect_stores
from secmon.common.clock import Clock
from secmon.common.daemon_names import LEADER
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, read_protected, root_started
from secmon.common.sqlite.files import set_aside
from secmon.config.api import ApiConfig, load_api_config
from secmon.config.auth import read_auth
from secmon.config.checks import validate_installation
from secmon.config.cluster import ClusterSection
from secmon.config.main import MainConfig, check_main_config, load_main_config
from secmon.config.options import InternalOptions, load_internal_options
from secmon.config.outputs import load_outputs
from secmon.config.port_check import check_ports
from secmon.config.remote import load_remote
from secmon.daemons.log_rotation import LogRotationSettings
from secmon.daemons.process_log import LogSettings
from secmon.daemons.service_user import service_account, unreadable_for
from secmon.daemons.watchdog import WatchSettings

log = logging.getLogger("secmon.supervisor")


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """One process: its name and the ``module:function`` that builds its daemon."""

    name: str
    factory: str
    needs_root: bool = False
    """Built before privileges are dropped for good, to bind a port below 1024 or to read a key of root's."""
    log: LogSettings = field(default_factory=LogSettings)


@dataclass(frozen=True, kw_only=True)
class SupervisorSettings:
    """The daemons in the order they start, and how."""

    daemons: tuple[ProcessSpec, ...]
    user: str | None = None
    """Service user that the daemons become; ``None``: they keep their user."""
    start_seconds: float = 60.0
    stop_seconds: float = 60.0
    """Bound of a clean stop of one daemon, which is killed then (manager.md 16)."""
    encrypted_key: Path | None = None
    """TLS key whose pass phrase the operator must type."""
    notes: tuple[str, ...] = ()
    """Warnings for the operator, one sentence each."""
    log: LogSettings = field(default_factory=LogSettings)
    watch: WatchSettings | None = field(default_factory=WatchSettings)
    """When a daemon counts as hung; ``None``: never."""
    log_rotation: LogRotationSettings | None = None
    """How the node's logs are rotated; ``None``: not at all."""
    unusable: Mapping[Path, str] = field(default_factory=dict)
    """Damaged stores that are renamed before the daemons start, with the fault of each."""

    def set_unusable_aside(self, clock: Clock) -> None:
        """Rename the damaged stores, so that new ones are created. Requires that no daemon runs. Raises OSError."""
        for file, reason in self.unusable.items():
            log.error("%s: it is renamed to %s and created again", reason, set_aside(file, clock))

    def on_terminal(self) -> "SupervisorSettings":
        """The same with the logs of all processes on standard error too: a terminal, a journal, a container's log."""
        daemons = tuple(replace(spec, log=replace(spec.log, terminal=True)) for spec in self.daemons)
        return replace(self, daemons=daemons, log=replace(self.log, terminal=True))


STANDARD = (
    ProcessSpec(name="secmon-apid", factory="secmon.daemons.apid:build", needs_root=True),
    ProcessSpec(name="secmon-authd", factory="secmon.daemons.authd:build"),
    ProcessSpec(name="secmon-analysisd", factory="secmon.daemons.analysisd:build"),
    ProcessSpec(name="secmon-db", factory="secmon.daemons.db:build"),
    ProcessSpec(name="secmon-remoted", factory="secmon.daemons.remoted:build", needs_root=True),
    ProcessSpec(name="secmon-modulesd", factory="secmon.daemons.modulesd:build"),
    ProcessSpec(name="secmon-csyslogd", factory="secmon.daemons.csyslogd:build"),
    ProcessSpec(name="secmon-integratord", factory="secmon.daemons.integratord:build"),
    ProcessSpec(name="secmon-maild", factory="secmon.daemons.maild:build"),
    ProcessSpec(name="secmon-clusterd", factory="secmon.daemons.clusterd:build"),
    ProcessSpec(name=LEADER, factory="secmon.daemons.leaderd:build"),
)
"""The daemons in the order of start (manager.md 16). The leader is stopped first, so that another node takes over."""


def inspect_installation(paths: Paths) -> Inspection:
    """Everything that keeps the node from starting, one sentence each: what is wrong with its configuration files.

    When those are valid: whether the daemons can run as their user, and whether the stores are whole and fit the node.
    """
    if problems := [str(problem) for problem in validate_installation(paths)]:
        return Inspection(problems, {})
    try:
        _service_user(paths, load_api_config(paths))
    except ConfigError as error:
        problems.append(error.extra or error.message)
    stores = inspect_stores(paths, worker=_has_replicas(load_main_config(paths).cluster))
    return Inspection(problems + stores.problems, stores.replaceable)


def read_supervisor_settings(paths: Paths) -> SupervisorSettings:
    """The settings for the current configuration.

    Raises ConfigError for a file that cannot be used, SecmonError 1908 naming everything wrong in the main one, 2012
    for stores that are lost, damaged or do not fit the node's role.
    """
    if not paths.main_config.exists():
        raise SecmonError(1908, f"{paths.root} holds no installation; make one: secmon init {paths.root}")
    api = load_api_config(paths)
    options = load_internal_options(paths)
    report = check_main_config(paths)
    if report.problems:
        raise SecmonError(1908, "; ".join(str(problem) for problem in report.problems))
    main = load_main_config(paths)
    auth = read_auth(main)
    remote = load_remote(paths)
    outputs = load_outputs(paths)
    for collision in check_ports(paths, api, main.cluster, options, auth=auth, remote=remote):
        raise collision
    stores = inspect_stores(paths, worker=_has_replicas(main.cluster))
    if stores.problems:
        raise SecmonError(2012, "; ".join(stores.problems))
    unused = {
        "secmon-clusterd": main.cluster.disabled,
        "secmon-authd": auth.disabled,
        "secmon-remoted": not remote,
        "secmon-csyslogd": not outputs.syslog,
        "secmon-integratord": not outputs.integrations and outputs.indexer is None,
        "secmon-maild": outputs.mail is None,
        LEADER: main.cluster.disabled or main.cluster.store is None,
    }
    wanted = [spec for spec in STANDARD if not unused.get(spec.name, False)]
    user, notes = _service_user(paths, api)
    return SupervisorSettings(
        daemons=tuple(replace(spec, log=_log(spec.name, main, options)) for spec in wanted),
        user=user,
        stop_seconds=options.get("daemons.stop_timeout"),
        encrypted_key=_encrypted_key(paths, api),
        log=_log("", main, options),
        watch=WatchSettings.of(options),
        log_rotation=LogRotationSettings.of(options),
        unusable=stores.replaceable,
        notes=(*api.warnings, *report.warnings, *options.warnings, *notes),
    )


def _has_replicas(cluster: ClusterSection) -> bool:
    """Whether the stores of the node are copies: of a master's, or of those of the store of record."""
    return not cluster.disabled and (cluster.is_worker or cluster.store is not None)


def require_processes(paths: Paths, settings: SupervisorSettings) -> None:
    """Raise ConfigError where the daemons cannot run in one process: a change of role ends some of them."""
    if any(spec.name == LEADER for spec in settings.daemons):
        allowed = "no store, with --single-process"
        raise ConfigError(str(paths.main_config), "cluster.store", "a store", allowed, code=2000)


_LEVELS = ("info", "debug", "debug2")
"""By the value of the internal options ``*.debug``."""


def _log(daemon: str, main: MainConfig, options: InternalOptions) -> LogSettings:
    """The log of ``daemon``; empty: of the supervisor."""
    formats = main.text("logging", "log_format", default="plain").split(",")
    return LogSettings(
        level=_LEVELS[options.get(f"{daemon.removeprefix('secmon-')}.debug")] if daemon else "info",
        formats=tuple(dict.fromkeys(each.strip() for each in formats)),
        node=main.cluster.node_name,
    )


def _service_user(paths: Paths, api: ApiConfig) -> tuple[str | None, tuple[str, ...]]:
    if not root_started():
        return None, ()
    account = service_account(paths, api)
    if account is None:
        reason = f"this host has no user {SERVICE_USER}" if api.drop_privileges else "drop_privileges is no in api.yaml"
        return None, (f"The daemons run as root: {reason}.",)
    closed = unreadable_for(account, paths.root)
    if closed is not None:
        # Checked here, so that a late import does not fail.
        allowed = f"no, as long as the user {SERVICE_USER} may not read {closed}"
        raise ConfigError(str(paths.api_config), "drop_privileges", "yes", allowed, code=2000)
    return SERVICE_USER, ()


def _encrypted_key(paths: Paths, api: ApiConfig) -> Path | None:
    key = paths.ssl / api.https.key
    if not api.https.enabled or not key.exists():
        return None
    return key if b"ENCRYPTED" in read_protected(paths.root, key) else None
