"""The sets of the system inventory: what their rows and their events are made of.

Sources: docs/reference/agent-data.md 4.1, 4.3, 4.6; newer-versions.md 3.1 to 3.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import Table

from secmon.inventory import schema

_NOT_IN_EVENTS = ("agent_id", "scan_id", "scan_time", "checksum", "item_id")


@dataclass(frozen=True, eq=False)
class DataSet:
    """A table, and what it has from messages. Names are those of columns.

    ``delta``: the type of its deltas. ``identity``: what distinguishes the agent's rows. ``required``: a state with
    nothing in one of these is refused. ``names``: other names that members have, by column. ``positive``: numbers that
    are null unless above 0; ``unsigned``: unless 0 or above. ``defaults``: integers that a state without them has.
    ``prefix`` and ``fields``: fields of events, as ``column`` or ``field=column``, separated by blanks.
    """

    delta: str
    table: Table
    identity: tuple[str, ...]
    prefix: str
    fields: str
    required: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    unsigned: tuple[str, ...] = ()
    defaults: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The column that names a row in ranges."""
        return next(column.name for column in self.table.primary_key if column.name != "agent_id")


def _all_columns(table: Table) -> str:
    return " ".join(name for name in table.columns.keys() if name not in _NOT_IN_EVENTS)  # noqa: SIM118 - not a dict


HARDWARE = DataSet(
    "dbsync_hwinfo", schema.hardware, ("board_serial",), "hardware.",
    fields="serial=board_serial cpu_name cpu_cores cpu_mhz ram_total ram_free ram_usage",
    positive=("cpu_cores", "cpu_mhz", "ram_total", "ram_free", "ram_usage"),
)  # fmt: skip
OPERATING_SYSTEMS = DataSet(
    "dbsync_osinfo", schema.operating_systems, ("os_name",), "os.",
    fields=(
        "hostname architecture name=os_name version=os_version codename=os_codename major=os_major "
        "minor=os_minor patch=os_patch build=os_build platform=os_platform sysname release os_release "
        "display_version=os_display_version"
    ),
)  # fmt: skip
PACKAGES = DataSet(
    "dbsync_packages", schema.packages, ("name", "version", "architecture", "format", "location"), "program.",
    fields=(
        "format name priority section size vendor install_time version architecture multiarch source "
        "description location"
    ),
    required=("name", "version", "architecture"),
    names={"section": ("groups", "group"), "multiarch": ("multi-arch",)},
    unsigned=("size",),
)  # fmt: skip
HOTFIXES = DataSet("dbsync_hotfixes", schema.hotfixes, ("hotfix",), "", fields="hotfix", required=("hotfix",))
PROCESSES = DataSet(
    "dbsync_processes", schema.processes, ("pid",), "process.",
    fields=(
        "pid name state ppid utime stime cmd args=argvs euser ruser suser egroup rgroup sgroup fgroup "
        "priority nice size vm_size resident share start_time pgrp session nlwp tgid tty processor"
    ),
    required=("pid",),
)  # fmt: skip
PORTS = DataSet(
    "dbsync_ports", schema.ports, ("inode", "protocol", "local_ip", "local_port"), "port.",
    fields=(
        "protocol local_ip local_port remote_ip remote_port tx_queue rx_queue inode state pid process"
    ),
    required=("protocol", "local_ip"),
    unsigned=("local_port", "remote_port"),
)  # fmt: skip
NETWORK_INTERFACES = DataSet(
    "dbsync_network_iface", schema.network_interfaces, ("name", "adapter", "type"), "netinfo.iface.",
    fields=(
        "name adapter type state mtu mac tx_packets rx_packets tx_bytes rx_bytes tx_errors rx_errors "
        "tx_dropped rx_dropped"
    ),
    required=("name",),
    positive=("mtu",),
)  # fmt: skip
NETWORK_PROTOCOLS = DataSet(
    "dbsync_network_protocol", schema.network_protocols, ("iface", "type"), "netinfo.proto.",
    fields="iface type gateway dhcp metric", required=("iface",),
)  # fmt: skip
NETWORK_ADDRESSES = DataSet(
    "dbsync_network_address", schema.network_addresses, ("iface", "proto", "address"), "netinfo.addr.",
    fields="iface proto address netmask broadcast", required=("iface", "address"),
)  # fmt: skip
USERS = DataSet(
    "dbsync_users", schema.users, ("user_name",), "user.", fields=_all_columns(schema.users),
    required=("user_name",),
    unsigned=(
        "user_id", "user_group_id", "user_auth_failed_count", "user_password_inactive_days",
        "user_password_max_days_between_changes", "user_password_min_days_between_changes",
        "user_password_warning_days_before_expiration", "process_pid",
    ),
    positive=(
        "user_last_login", "user_password_expiration_date", "user_created", "user_auth_failed_timestamp",
        "user_password_last_change",
    ),
    defaults={"user_is_hidden": -1, "user_is_remote": -1, "login_status": -1},
)  # fmt: skip
USER_GROUPS = DataSet(
    "dbsync_groups", schema.user_groups, ("group_name",), "group.", fields=_all_columns(schema.user_groups),
    required=("group_name",), unsigned=("group_id",), defaults={"group_is_hidden": -1},
)  # fmt: skip
SERVICES = DataSet(
    "dbsync_services", schema.services, ("service_id", "file_path"), "service.",
    fields=_all_columns(schema.services), required=("service_id", "file_path"),
    names={
        "process_working_directory": ("process_working_dir",), "process_root_directory": ("process_root_dir",),
    },
    unsigned=(
        "service_frequency", "service_target_ephemeral_id", "service_exit_code", "service_win32_exit_code",
        "process_pid",
    ),
)  # fmt: skip
BROWSER_EXTENSIONS = DataSet(
    "dbsync_browser_extensions", schema.browser_extensions,
    ("browser_name", "user_id", "browser_profile_path", "package_name", "package_version"), "browser_extension.",
    fields=_all_columns(schema.browser_extensions),
    required=("browser_name", "user_id", "browser_profile_path", "package_name", "package_version"),
)  # fmt: skip

DATA_SETS = (
    HARDWARE, OPERATING_SYSTEMS, PACKAGES, HOTFIXES, PROCESSES, PORTS, NETWORK_INTERFACES, NETWORK_PROTOCOLS,
    NETWORK_ADDRESSES, USERS, USER_GROUPS, SERVICES, BROWSER_EXTENSIONS,
)  # fmt: skip
