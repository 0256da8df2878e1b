"""Deltas of the system inventory, and messages of old agents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.inventory import schema
from secmon.inventory.message import MalformedMessage
from secmon.inventory.system.data_sets import DATA_SETS, DataSet
from secmon.inventory.system.deltas import store_inventory
from tests.inventory.handled_messages import HandledMessages, message_of

PACKAGE: dict[str, Any] = {
    "architecture": "amd64", "checksum": "ba80fce98eca50df3b9dba9a40dc7628bfe73440", "description": "Sample package",
    "format": "deb", "groups": "utils", "install_time": " ", "item_id": "7317e2e25d4f00f3865042d8619d9c9e7058cbb9",
    "location": " ", "multiarch": "foreign", "name": "demo-tool", "priority": "optional",
    "scan_time": "2024/05/02 09:00:00", "size": 512, "source": "demo (2.4.1)",
    "vendor": "Example Maintainers <pkg@example.org>", "version": "2.4.1-3",
}  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path, store_inventory)
    yield made
    made.store.close()


def delta(kind: str, operation: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"dbsync_{kind}", "operation": operation, "data": data}


def send(node: HandledMessages, *bodies: dict[str, Any]) -> list[dict[str, str]]:
    """Deliver messages; returns the fields of their events."""
    changes = node.handle(*(message_of("syscollector", body) for body in bodies))
    assert all(event.decoder == "syscollector" and event.name == "web-4" for event in changes.events)
    assert changes.answers == []
    return [dict(event.fields) for event in changes.events]


def test_a_package_comes_changes_and_goes(node: HandledMessages) -> None:
    (event,) = send(node, delta("packages", "INSERTED", PACKAGE))
    assert event == {
        "type": "dbsync_packages", "operation_type": "INSERTED", "program.format": "deb", "program.name": "demo-tool",
        "program.priority": "optional", "program.section": "utils", "program.size": "512",
        "program.vendor": "Example Maintainers <pkg@example.org>", "program.install_time": " ",
        "program.version": "2.4.1-3", "program.architecture": "amd64", "program.multiarch": "foreign",
        "program.source": "demo (2.4.1)", "program.description": "Sample package", "program.location": " ",
    }  # fmt: skip
    (row,) = node.rows(schema.packages)
    expected = {name: value for name, value in PACKAGE.items() if name != "groups"}
    assert row == expected | {"section": "utils", "scan_id": 0}
    send(node, delta("packages", "MODIFIED", {**PACKAGE, "vendor": None, "size": "1024"}))
    (row,) = node.rows(schema.packages)
    assert (row["vendor"], row["size"]) == (None, 1024)
    (event,) = send(node, delta("packages", "DELETED", PACKAGE))
    assert event["operation_type"] == "DELETED"
    assert node.rows(schema.packages) == []
    assert len(send(node, delta("packages", "DELETED", PACKAGE))) == 1


def test_deltas_without_their_hash_have_its_value(node: HandledMessages) -> None:
    bare = {name: value for name, value in PACKAGE.items() if name != "item_id"}
    send(node, delta("packages", "INSERTED", bare))
    assert node.rows(schema.packages)[0]["item_id"] == PACKAGE["item_id"]
    send(node, delta("packages", "DELETED", bare))
    assert node.rows(schema.packages) == []


def test_fields_of_events(node: HandledMessages) -> None:
    address = {"iface": "eth0", "proto": 0, "address": "10.0.0.5", "checksum": "c", "dhcp": "x", "metric": "1"}
    hardware = {"board_serial": "BS-0001", "cpu_MHz": 2400.0, "checksum": "c"}
    process = {"pid": "12", "argvs": "-x", "checksum": "c"}
    system = {"os_name": "Ubuntu", "os_version": "22.04", "version": "#110", "checksum": "c"}
    user = {"user_name": "dana", "process_pid": 4, "checksum": "c"}
    found = send(
        node,
        delta("network_address", "INSERTED", address),
        delta("hwinfo", "MODIFIED", hardware),
        delta("processes", "INSERTED", process),
        delta("osinfo", "MODIFIED", system),
        delta("hotfixes", "INSERTED", {"hotfix": "KB1", "checksum": "c"}),
        delta("users", "INSERTED", user),
    )
    wanted = [
        ("netinfo.addr.proto", "ipv4"), ("hardware.cpu_mhz", "2400.000000"), ("process.args", "-x"),
        ("os.version", "22.04"), ("hotfix", "KB1"), ("user.process_pid", "4"),
    ]  # fmt: skip
    for fields, (name, value) in zip(found, wanted, strict=True):
        assert fields[name] == value
    assert found[1]["hardware.serial"] == "BS-0001"
    assert found[1]["hardware.cpu_cores"] == ""
    assert not {"user.scan_time", "user.checksum", "user.scan_id"} & set(found[5])


@pytest.mark.parametrize("data_set", DATA_SETS, ids=lambda one: one.delta)
def test_every_set_has_deltas(node: HandledMessages, data_set: DataSet) -> None:
    data = {name: "1" for name in data_set.table.columns.keys() if name not in ("agent_id", "scan_id", "reference")}  # noqa: SIM118
    data |= {"dhcp": "enabled"}
    kind = data_set.delta.removeprefix("dbsync_")
    assert send(node, delta(kind, "INSERTED", data))[0]["type"] == data_set.delta
    assert len(node.rows(data_set.table)) == 1
    send(node, delta(kind, "DELETED", data))
    assert node.rows(data_set.table) == []


@pytest.mark.parametrize(
    "body",
    [
        delta("packages", "UPDATED", PACKAGE), delta("package", "INSERTED", PACKAGE), {"type": "dbsync_packages"},
        delta("packages", "INSERTED", []), delta("packages", "INSERTED", {**PACKAGE, "size": "big"}),  # type: ignore[arg-type]
        delta("packages", "INSERTED", {**PACKAGE, "checksum": ""}), {"type": []}, {}, {"type": "program", "ID": 1},
        {"type": "packages", "ID": 1, "program": {}}, {"type": "hotfix", "hotfix": "KB1"},
    ],
)  # fmt: skip
def test_malformed_messages(node: HandledMessages, body: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        send(node, body)


def test_only_one_source(node: HandledMessages) -> None:
    for source in ("syscheck", "syscollector2", ""):
        with pytest.raises(MalformedMessage):
            node.handle(message_of(source, json.dumps(delta("packages", "INSERTED", PACKAGE))))


def legacy(kind: str, scan: int = 7, **members: Any) -> dict[str, Any]:
    return {"type": kind, "ID": scan, "timestamp": "2020/05/02 09:00:00", **members}


INTERFACE = {
    "name": "eth0", "type": "ethernet", "MAC": "00:11", "MTU": 1500, "state": "up",
    "IPv4": {
        "address": ["10.0.0.5", "10.0.0.6"], "netmask": ["255.0.0.0"], "broadcast": ["10.255.255.255", "10.0.0.255"],
        "gateway": "10.0.0.1", "dhcp": "enabled", "metric": 100,
    },
    "IPv6": {"address": ["fe80::1"]},
}  # fmt: skip


def test_scans_of_old_agents(node: HandledMessages) -> None:
    program = {"name": "demo", "version": "1", "architecture": "amd64", "group": "utils", "multi-arch": "same"}
    port = {"protocol": "tcp", "local_ip": "0.0.0.0", "local_port": 22, "PID": 812}
    events = send(
        node,
        legacy("hardware", inventory={"board_serial": "BS", "cpu_MHz": 2400}),
        legacy("OS", inventory={"os_name": "Ubuntu", "os_version": "22.04"}),
        legacy("network", iface=INTERFACE),
        legacy("port", port=port),
        legacy("program", program=program),
        legacy("hotfix", hotfix="KB1"),
        legacy("process", process={"pid": 12, "argvs": ["-x", "y"]}),
    )
    assert events == []
    tables = (
        schema.hardware,
        schema.operating_systems,
        schema.ports,
        schema.packages,
        schema.hotfixes,
        schema.processes,
    )
    for table in tables:
        (row,) = node.rows(table)
        assert (row["scan_id"], row["checksum"], row["scan_time"]) == (7, "legacy", "2020/05/02 09:00:00")
    assert node.rows(schema.ports)[0]["pid"] == 812
    assert node.rows(schema.packages)[0]["multiarch"] == "same"
    assert node.rows(schema.processes)[0]["argvs"] == "-x y"
    assert node.rows(schema.network_interfaces)[0]["mtu"] == 1500
    assert {row["type"]: row["gateway"] for row in node.rows(schema.network_protocols)} == {
        "ipv4": "10.0.0.1", "ipv6": None,
    }  # fmt: skip
    addresses = {row["address"]: (row["proto"], row["netmask"]) for row in node.rows(schema.network_addresses)}
    assert addresses == {"10.0.0.5": ("ipv4", "255.0.0.0"), "10.0.0.6": ("ipv4", None), "fe80::1": ("ipv6", None)}


def test_the_end_of_a_scan_deletes_earlier_rows(node: HandledMessages) -> None:
    send(node, legacy("network", iface=INTERFACE), legacy("hotfix", hotfix="KB1"))
    send(node, legacy("hotfix", 8, hotfix="KB2"), legacy("network_end", 8), legacy("hotfix_end", 8))
    assert [row["hotfix"] for row in node.rows(schema.hotfixes)] == ["KB2"]
    for table in (schema.network_interfaces, schema.network_protocols, schema.network_addresses):
        assert node.rows(table) == []


def test_one_system_replaces_another(node: HandledMessages) -> None:
    for name in ("Debian", "Ubuntu"):
        send(node, legacy("OS", inventory={"os_name": name}))
    assert [row["os_name"] for row in node.rows(schema.operating_systems)] == ["Ubuntu"]
