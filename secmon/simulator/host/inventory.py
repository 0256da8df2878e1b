"""The inventory of a host: rows that fit its system, and their changes (agent-data.md 4)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from secmon.simulator.dialect import Dialect
from secmon.simulator.host.synchronized_table import Row, SynchronizedTable, digest
from secmon.simulator.profiles import Profile

Columns = dict[str, Any]
Delta = Mapping[str, Any]
"""The body of a message of type d."""
_NAMES = (
    "openssl",
    "curl",
    "bash",
    "nginx",
    "python3",
    "sudo",
    "zlib",
    "sqlite",
    "openssh-server",
    "vim",
    "git",
    "requests",
)
_PYTHON = ("requests",)
"""Those of them that are Python's."""
_PROCESSES = ("systemd", "sshd", "cron", "nginx", "postgres", "rsyslogd", "agetty", "dbus-daemon")
_PORTS = ((22, "sshd"), (80, "nginx"), (443, "nginx"), (5432, "postgres"), (3306, "mysqld"), (8080, "java"))


@dataclass(frozen=True)
class Kind:
    """A table. ``key``: the column that names its rows in ranges; ``identity``: the columns of ``item_id``."""

    component: str
    delta: str
    key: str
    identity: tuple[str, ...] = ()


PACKAGES = Kind(
    "syscollector_packages", "packages", "item_id", ("name", "version", "architecture", "format", "location")
)
PORTS = Kind("syscollector_ports", "ports", "item_id", ("inode", "protocol", "local_ip", "local_port"))
PROCESSES = Kind("syscollector_processes", "processes", "pid")
HOTFIXES = Kind("syscollector_hotfixes", "hotfixes", "hotfix")
HARDWARE = Kind("syscollector_hwinfo", "hwinfo", "board_serial")
SYSTEM = Kind("syscollector_osinfo", "osinfo", "os_name")
INTERFACES = Kind("syscollector_network_iface", "network_iface", "item_id", ("name", "adapter", "type"))
PROTOCOLS = Kind("syscollector_network_protocol", "network_protocol", "item_id", ("iface", "type"))
ADDRESSES = Kind("syscollector_network_address", "network_address", "item_id", ("iface", "proto", "address"))
USERS = Kind("syscollector_users", "users", "user_name")
GROUPS = Kind("syscollector_groups", "groups", "group_name")
SERVICES = Kind("syscollector_services", "services", "item_id", ("service_id", "file_path"))

KINDS = (PACKAGES, PORTS, PROCESSES, HOTFIXES, HARDWARE, SYSTEM, INTERFACES, PROTOCOLS, ADDRESSES)
NEWER_KINDS = (USERS, GROUPS, SERVICES)
"""Reported by agents of 4.14 and later."""


def hashed(kind: Kind, columns: Columns, moment: datetime) -> Columns:
    """The columns with ``checksum``, ``item_id`` where the table has one, and the time of the scan (4.4)."""
    row = {name: value for name, value in columns.items() if value is not None}
    row["checksum"] = digest(msgspec.json.encode(row, order="sorted").decode())
    if kind is SYSTEM:
        row["checksum"] = str(int(moment.timestamp() * 1e9))
    if kind.identity:
        row["item_id"] = digest("".join(str(columns[name]) for name in kind.identity if columns[name] is not None))
    row["scan_time"] = f"{moment:%Y/%m/%d %H:%M:%S}"
    return row


class Inventory:
    """The tables of one host. The rows depend on the random numbers only."""

    def __init__(
        self, name: str, profile: Profile, dialect: Dialect, random: Random, now: Callable[[], datetime], packages: int
    ) -> None:
        """``packages``: how many are installed at first."""
        self._name, self._profile, self._random, self._now = name, profile, random, now
        kinds = KINDS + (NEWER_KINDS if dialect.newer_inventory else ())
        self._columns: dict[Kind, dict[str, Columns]] = {kind: {} for kind in kinds}
        self.tables = {kind: SynchronizedTable(kind.component) for kind in kinds}
        self._installed = 0
        for kind, rows in (*self._first_rows(packages), *(self._newer_rows() if dialect.newer_inventory else ())):
            for row in rows:
                self._put(kind, row)

    def change(self) -> Iterator[Delta]:
        """Install, update or remove a package, or start another process."""
        choice = self._random.randrange(4)
        if choice == 0:
            yield self._put(PACKAGES, self._package())
        elif choice == 1:
            key = self._random.choice(list(self._columns[PACKAGES]))
            old = self._columns[PACKAGES][key]
            version = f"{self._random.randrange(1, 9)}.{self._random.randrange(50)}-1"
            if version != old["version"]:  # the version is part of the identity: another row
                yield self._remove(PACKAGES, key)
                yield self._put(PACKAGES, {**old, "version": version})
        elif choice == 2:
            yield self._put(PROCESSES, self._process(self._random.randrange(1000, 30000)))
        elif len(self._columns[PROCESSES]) > 3:
            yield self._remove(PROCESSES, self._random.choice(list(self._columns[PROCESSES])))

    def snapshot(self) -> dict[Kind, dict[str, Row]]:
        return {kind: dict(table.rows) for kind, table in self.tables.items()}

    def restore(self, snapshot: Mapping[Kind, Mapping[str, Row]]) -> None:
        """Return to an earlier state of the host."""
        for kind, rows in snapshot.items():
            self.tables[kind].restore(rows)
            self._columns[kind] = {key: dict(row.state["attributes"]) for key, row in rows.items()}

    def _put(self, kind: Kind, columns: Columns) -> Delta:
        row = hashed(kind, columns, self._now())
        key = str(row[kind.key])
        operation = "MODIFIED" if key in self._columns[kind] else "INSERTED"
        self._columns[kind][key] = row
        self.tables[kind].put(key, Row(row["checksum"], {"attributes": row, "timestamp": ""}))
        return {"type": f"dbsync_{kind.delta}", "operation": operation, "data": row}

    def _remove(self, kind: Kind, key: str) -> Delta:
        self.tables[kind].remove(key)
        return {"type": f"dbsync_{kind.delta}", "operation": "DELETED", "data": self._columns[kind].pop(key)}

    # Rows

    def _first_rows(self, packages: int) -> Iterator[tuple[Kind, Sequence[Columns]]]:
        windows = self._profile.family == "windows"
        yield PACKAGES, [self._package() for _ in range(packages)]
        yield PORTS, [self._port(port, process) for port, process in self._random.sample(_PORTS, 4)]
        yield PROCESSES, [self._process(1 + 100 * at, name) for at, name in enumerate(_PROCESSES)]
        yield HOTFIXES, [{"hotfix": f"KB50{number:05}"} for number in (10001, 31234, 34441) if windows]
        yield HARDWARE, [self._hardware()]
        yield SYSTEM, [self._system()]
        yield from self._network()

    def _package(self) -> Columns:
        number, self._installed = self._installed, self._installed + 1
        name = _NAMES[number] if number < len(_NAMES) else f"package-{number:04}"
        return {
            "name": name,
            "version": f"{1 + number % 9}.{self._random.randrange(20)}-1",
            "architecture": self._profile.arch,
            "format": "pypi" if name in _PYTHON else self._profile.package,
            "vendor": self._profile.vendor,
            "description": f"Sample package {number}",
            "groups": "utils",
            "install_time": " ",
            "location": " ",
            "priority": "optional",
            "multiarch": " ",
            "size": 100 + number,
            "source": " ",
        }

    def _port(self, port: int, process: str) -> Columns:
        return {
            "protocol": "tcp",
            "local_ip": "0.0.0.0",
            "local_port": port,
            "remote_ip": "0.0.0.0",
            "remote_port": 0,
            "tx_queue": 0,
            "rx_queue": 0,
            "inode": 10000 + port,
            "state": "listening",
            "pid": 500 + port % 97,
            "process": process,
        }

    def _process(self, pid: int, name: str = "") -> Columns:
        name = name or self._random.choice(_PROCESSES)
        return {
            "pid": str(pid),
            "name": name,
            "state": "S",
            "ppid": 1,
            "utime": self._random.randrange(1000),
            "stime": self._random.randrange(1000),
            "cmd": f"/usr/sbin/{name}",
            "argvs": "-D",
            "euser": "root",
            "ruser": "root",
            "egroup": "root",
            "rgroup": "root",
            "priority": 20,
            "nice": 0,
            "size": 4096,
            "vm_size": 16384,
            "resident": 2048,
            "share": 1024,
            "start_time": 1_700_000_000,
            "pgrp": pid,
            "session": pid,
            "nlwp": 1,
            "tgid": pid,
            "tty": 0,
            "processor": pid % 4,
        }

    def _hardware(self) -> Columns:
        free = self._random.randrange(1_000_000, 8_000_000)
        return {
            "board_serial": f"BS-{self._name}",
            "cpu_name": "Example CPU",
            "cpu_cores": 4,
            "cpu_mhz": 2400.0,
            "ram_total": 8_000_000,
            "ram_free": free,
            "ram_usage": 100 - free * 100 // 8_000_000,
        }

    def _system(self) -> Columns:
        name, _, version = self._profile.release.partition(": ")
        system, release, build = (*self._profile.uname[:3], "", "", "")[:3]
        major, _, minor = version.partition(" ")[0].partition(".")
        if not self._profile.uname:
            name, _, version = self._profile.release.partition(" [Ver: ")
            version = version.rstrip("]")
            major, minor = version.split(".")[:2]
        return {
            "hostname": self._name,
            "architecture": self._profile.arch,
            "os_name": name.partition("|")[0],
            "os_platform": name.partition("|")[2] or "windows",
            "os_version": version or "1",
            "os_major": major or "1",
            "os_minor": minor or "0",
            "sysname": system or None,
            "release": release or None,
            "version": build or None,
        }

    def _network(self) -> Iterator[tuple[Kind, Sequence[Columns]]]:
        traffic = {
            f"{way}_{what}": self._random.randrange(10**6) if what in ("packets", "bytes") else 0
            for way in ("tx", "rx")
            for what in ("packets", "bytes", "errors", "dropped")
        }
        mac = ":".join(f"{byte:02x}" for byte in (2, *self._random.randbytes(5)))
        interface = {"name": "eth0", "adapter": " ", "type": "ethernet", "state": "up", "mtu": 1500, "mac": mac}
        yield INTERFACES, [interface | traffic]
        protocol = {"iface": "eth0", "type": "ipv4", "gateway": "10.0.0.1", "dhcp": "enabled", "metric": "100"}
        yield PROTOCOLS, [protocol]
        address = f"10.0.{self._random.randrange(256)}.{self._random.randrange(2, 255)}"
        yield (
            ADDRESSES,
            [{"iface": "eth0", "proto": 0, "address": address, "netmask": "255.255.0.0", "broadcast": "10.0.255.255"}],
        )

    def _newer_rows(self) -> Iterator[tuple[Kind, Sequence[Columns]]]:
        yield (
            USERS,
            [
                {
                    "user_name": name,
                    "user_id": number,
                    "user_group_id": number,
                    "user_home": f"/home/{name}",
                    "user_shell": "/bin/sh",
                }
                for number, name in enumerate(("root", "daemon", "dana"))
            ],
        )
        yield (
            GROUPS,
            [{"group_name": name, "group_id": at, "group_users": "root"} for at, name in enumerate(("root", "adm"))],
        )
        yield (
            SERVICES,
            [
                {
                    "service_id": f"{name}.service",
                    "service_name": f"{name}.service",
                    "service_state": "active",
                    "file_path": " ",
                }
                for name in ("sshd", "cron", "nginx")
            ],
        )
