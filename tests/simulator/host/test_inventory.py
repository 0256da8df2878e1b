"""The inventory of a simulated host: hashes by the vectors of agent-data.md 14.2, changes, backups."""

from datetime import UTC, datetime
from random import Random

import pytest

from secmon.simulator.dialect import Dialect
from secmon.simulator.host.inventory import (
    ADDRESSES,
    HARDWARE,
    HOTFIXES,
    PACKAGES,
    PORTS,
    PROCESSES,
    PROTOCOLS,
    USERS,
    Columns,
    Inventory,
    Kind,
    hashed,
)
from secmon.simulator.profiles import PROFILES

NOW = datetime(2024, 5, 2, 8, 53, 20, tzinfo=UTC)
PACKAGE = {
    "architecture": "amd64", "description": "Sample package", "format": "deb", "groups": "utils", "install_time": " ",
    "location": " ", "multiarch": "foreign", "name": "demo-tool", "priority": "optional", "size": 512,
    "source": "demo (2.4.1)", "vendor": "Example Maintainers <pkg@example.org>", "version": "2.4.1-3",
}  # fmt: skip
PORT = {
    "inode": 18662, "local_ip": "0.0.0.0", "local_port": 22, "pid": 812, "process": "sshd", "protocol": "tcp",
    "remote_ip": "0.0.0.0", "remote_port": 0, "rx_queue": 0, "state": "listening", "tx_queue": 0,
}  # fmt: skip
ADDRESS = {
    "address": "10.0.0.5", "broadcast": "10.0.0.255", "dhcp": "enabled", "iface": "eth0", "metric": "100",
    "netmask": "255.255.255.0", "proto": 0,
}  # fmt: skip
PROTOCOL = {"dhcp": "enabled", "gateway": "10.0.0.1", "iface": "eth0", "metric": "100", "type": "ipv4"}
BOARD = {
    "board_serial": "BS-0001", "cpu_cores": 4, "cpu_mhz": 2400.0, "cpu_name": "Example CPU", "ram_free": 3000000,
    "ram_total": 8000000, "ram_usage": 63,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "columns", "checksum", "item"),
    [
        (PACKAGES, PACKAGE, "ba80fce98eca50df3b9dba9a40dc7628bfe73440", "7317e2e25d4f00f3865042d8619d9c9e7058cbb9"),
        (PORTS, PORT, "927f0e5c7a20021c37ccbd9372f2c6fc35286d0b", "a247ae9fa2b5c6b68985839708fc990445fc69d7"),
        (HOTFIXES, {"hotfix": "KB5031234"}, "ee8688533c49ee428003731a110940a18c98cfcc", None),
        (ADDRESSES, ADDRESS, "08079f30fbfb43e7f5e286494da2971e6f66fa2e", "ac0300b269fc108b9c48a0f250bdbab421dee067"),
        (PROTOCOLS, PROTOCOL, "05ebadad1dd35e11018bf49a7c601bc7208d3bd3", "f19629d858393054b7075ec6db3d778db7f18f30"),
        (HARDWARE, BOARD, "98a07f62980f5b2e4d7db4f2fae1ee26659ef2bc", None),
    ],
    ids=lambda value: value.delta if isinstance(value, Kind) else "",
)
def test_hashes_are_those_of_agents(kind: Kind, columns: Columns, checksum: str, item: str | None) -> None:
    row = hashed(kind, columns, NOW)
    assert (row["checksum"], row.get("item_id"), row["scan_time"]) == (checksum, item, "2024/05/02 08:53:20")


def inventory(profile: str = "debian-12", version: str = "v4.8.2") -> Inventory:
    return Inventory("web-1", PROFILES[profile], Dialect.of(version), Random(1), lambda: NOW, 5)


def test_deltas_lead_to_the_rows_of_the_tables() -> None:
    host = inventory()
    copies = {
        kind: {key: row.state["attributes"] for key, row in table.rows.items()} for kind, table in host.tables.items()
    }
    kinds = {f"dbsync_{kind.delta}": kind for kind in host.tables}
    seen = set()
    for _ in range(200):
        for delta in host.change():
            kind, row = kinds[delta["type"]], delta["data"]
            seen.add((kind, delta["operation"]))
            if delta["operation"] == "DELETED":
                del copies[kind][row[kind.key]]
            else:
                copies[kind][row[kind.key]] = row
    assert seen >= {(PACKAGES, "INSERTED"), (PACKAGES, "DELETED"), (PROCESSES, "INSERTED"), (PROCESSES, "DELETED")}
    assert copies == {
        kind: {key: row.state["attributes"] for key, row in table.rows.items()} for kind, table in host.tables.items()
    }


def test_a_restored_host_has_its_former_rows() -> None:
    host = inventory()
    before = host.snapshot()
    for _ in range(20):
        list(host.change())
    assert host.snapshot() != before
    host.restore(before)
    assert host.snapshot() == before
    list(host.change())


def test_systems_and_versions_have_their_tables() -> None:
    assert inventory("windows-2019").tables[HOTFIXES].rows
    assert not inventory().tables[HOTFIXES].rows
    assert USERS not in inventory().tables
    assert inventory(version="v4.14.1").tables[USERS].rows
