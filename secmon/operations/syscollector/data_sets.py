"""The data sets of the system inventory (agent-data.md 4.8): tables, fields and filters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Table, select

from secmon.cluster.parameters import Alphanumeric
from secmon.common.query import Sort
from secmon.common.query.columns import Column
from secmon.inventory import schema
from secmon.operations.inventory.columns import columns_of, iso_text, scan_time
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.shapes import Count, Digits

_NESTED = frozenset({"scan", "os", "ram", "cpu", "local", "remote", "tx", "rx"})


@dataclass(frozen=True, kw_only=True)
class InventorySet:
    """A data set of the system inventory, and the operations on it.

    ``filters``: parameters of the agent's list, with their types; ``filters_of_all``: those of the list of all agents
    where they differ. ``paged`` False: there is at most a row or two, and only ``select`` is offered. ``experimental``:
    there is a list of all agents.
    """

    title: str
    what: str
    data_set: DataSet
    filters: Mapping[str, Any] = field(default_factory=dict)
    filters_of_all: Mapping[str, Any] = field(default_factory=dict)
    paged: bool = True
    experimental: bool = True


def _columns(table: Table, names: str) -> dict[str, Column]:
    """The fields, with their times."""
    found = columns_of(table, names)
    for name in found.keys() & {"scan.time", "scan_time"}:
        found[name] = scan_time(table.c.scan_time)
    if "install_time" in found:
        found["install_time"] = Column(iso_text(table.c.install_time))
    return found


def _data_set(name: str, component: str, table: Table, names: str, scan: str = "scan.id") -> DataSet:
    """The key of a table is its second column: the first one is the agent."""
    _, key = table.primary_key.columns
    return DataSet(
        name=name,
        source=select(table),
        agent=table.c.agent_id,
        key=key,
        columns=_columns(table, names),
        default_sort=Sort((scan,)),
        components=(f"syscollector_{component}",),
        nested=_NESTED,
    )


def _each(kind: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


_SCAN = " scan.id scan.time"
_SYSTEM = "hostname architecture version sysname release os_release"
_COUNTERS = "tx.packets rx.packets tx.bytes rx.bytes tx.errors rx.errors tx.dropped rx.dropped"
_PROTOCOL = {
    **_each(Alphanumeric, "iface type gateway"),
    "dhcp": Literal["enabled", "disabled", "unknown", "BOOTP"],
}
_ADDRESS = _each(Alphanumeric, "proto address broadcast netmask")

INVENTORY_SETS = (
    InventorySet(
        title="Hardware",
        what="The hardware",
        data_set=_data_set(
            "hardware", "hwinfo", schema.hardware,
            "board_serial cpu.name cpu.cores cpu.mhz ram.total ram.free ram.usage" + _SCAN,
        ),
        filters_of_all=_each(Count, "ram.free ram.total cpu.cores")
        | _each(str, "cpu.mhz cpu.name")
        | _each(Alphanumeric, "board_serial"),
        paged=False,
    ),
    InventorySet(
        title="OperatingSystem",
        what="The operating system",
        data_set=_data_set(
            "os", "osinfo", schema.operating_systems,
            f"{_SYSTEM} os.name os.version os.codename os.major os.minor os.build os.platform os.display_version"
            + _SCAN,
        ),
        filters_of_all=_each(Alphanumeric, "os.name architecture os.version version release"),
        paged=False,
    ),
    InventorySet(
        title="Package",
        what="The packages",
        data_set=_data_set(
            "packages", "packages", schema.packages,
            "name version vendor format architecture priority section size install_time multiarch source description "
            "location" + _SCAN,
        ),
        filters=_each(str, "vendor version") | _each(Alphanumeric, "name architecture format"),
    ),
    InventorySet(
        title="Hotfix",
        what="The hotfixes",
        data_set=_data_set("hotfixes", "hotfixes", schema.hotfixes, "hotfix scan_id scan_time", scan="scan_id"),
        filters={"hotfix": str},
    ),
    InventorySet(
        title="Process",
        what="The processes",
        data_set=_data_set(
            "processes", "processes", schema.processes,
            "pid name state ppid utime stime cmd argvs euser ruser suser egroup rgroup sgroup fgroup priority nice "
            "size vm_size resident share start_time pgrp session nlwp tgid tty processor" + _SCAN,
        ),
        filters=_each(Digits, "pid ppid nlwp pgrp priority")
        | _each(Alphanumeric, "state egroup euser fgroup name rgroup ruser sgroup suser"),
    ),
    InventorySet(
        title="Port",
        what="The open ports",
        data_set=_data_set(
            "ports", "ports", schema.ports,
            "protocol local.ip local.port remote.ip remote.port tx_queue rx_queue inode state pid process" + _SCAN,
        ),
        filters=_each(Digits, "pid local.port tx_queue")
        | _each(Alphanumeric, "protocol local.ip remote.ip state process"),
    ),
    InventorySet(
        title="NetworkInterface",
        what="The network interfaces",
        data_set=_data_set(
            "netiface", "network_iface", schema.network_interfaces,
            f"name adapter type state mtu mac {_COUNTERS}" + _SCAN,
        ),
        filters=_each(Alphanumeric, "name adapter state") | {"type": str} | _each(Count, f"mtu {_COUNTERS}"),
    ),
    InventorySet(
        title="NetworkProtocol",
        what="The routes of the network interfaces",
        data_set=_data_set(
            "netproto", "network_protocol", schema.network_protocols, "iface type gateway dhcp scan.id",
        ),
        filters=_PROTOCOL,
    ),
    InventorySet(
        title="NetworkAddress",
        what="The network addresses",
        data_set=_data_set(
            "netaddr", "network_address", schema.network_addresses, "iface proto address netmask broadcast scan.id",
        ),
        filters=_ADDRESS | {"iface": Alphanumeric},
        filters_of_all=_ADDRESS,
    ),
    InventorySet(
        title="HostUser",
        what="The users",
        data_set=_data_set(
            "users", "users", schema.users,
            "user.name user.full_name user.home user.id user.uid_signed user.uuid user.groups user.group_id "
            "user.group_id_signed user.created user.roles user.shell user.type user.is_hidden user.is_remote "
            "user.last_login user.auth_failed_count user.auth_failed_timestamp user.password_expiration_date "
            "user.password_hash_algorithm user.password_inactive_days user.password_last_change "
            "user.password_max_days_between_changes user.password_min_days_between_changes user.password_status "
            "user.password_warning_days_before_expiration process_pid host_ip login.status login.tty login.type "
            "checksum" + _SCAN,
        ),
        experimental=False,
    ),
    InventorySet(
        title="HostUserGroup",
        what="The groups of users",
        data_set=_data_set(
            "groups", "groups", schema.user_groups,
            "group.id group.name group.description group.id_signed group.uuid group.is_hidden group.users checksum"
            + _SCAN,
        ),
        experimental=False,
    ),
    InventorySet(
        title="Service",
        what="The services",
        data_set=_data_set(
            "services", "services", schema.services,
            "service.id service.name service.description service.type service.state service.sub_state service.enabled "
            "service.start_type service.restart service.frequency service.starts_on_mount "
            "service.starts_on_path_modified service.starts_on_not_empty_directory service.inetd_compatibility "
            "process.pid process.executable process.args process.user_name process.group_name "
            "process.working_directory process.root_directory file.path service.address log_file.path "
            "error_log_file.path service.exit_code service.win32_exit_code service.following service.object_path "
            "service.target_ephemeral_id service.target_type service.target_address checksum" + _SCAN,
        ),
        experimental=False,
    ),
    InventorySet(
        title="BrowserExtension",
        what="The extensions of browsers",
        data_set=_data_set(
            "browser_extensions", "browser_extensions", schema.browser_extensions,
            "browser.name user.id package.name package.id package.version package.description package.vendor "
            "package.build_version package.path browser.profile_name browser.profile_path package.reference "
            "package.permissions package.type package.enabled package.autoupdate package.visible package.persistent "
            "package.from_webstore browser.profile_referenced package.installed file_hash.sha256 checksum" + _SCAN,
        ),
        experimental=False,
    ),
)  # fmt: skip
