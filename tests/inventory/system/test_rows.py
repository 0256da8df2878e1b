"""Rows of the system inventory: vectors of agents' hashes, and conversions."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.inventory.message import MalformedMessage
from secmon.inventory.system import data_sets as sets
from secmon.inventory.system.data_sets import DATA_SETS, DataSet
from secmon.inventory.system.rows import converted_row, item_id, key_of, named, reference
from secmon.inventory.values import MAX_INTEGER


@pytest.mark.parametrize(
    ("data_set", "members", "expected"),
    [
        (
            sets.PACKAGES,
            {"name": "demo-tool", "version": "2.4.1-3", "architecture": "amd64", "format": "deb", "location": " "},
            "7317e2e25d4f00f3865042d8619d9c9e7058cbb9",
        ),
        (
            sets.PORTS,
            {"inode": 18662, "protocol": "tcp", "local_ip": "0.0.0.0", "local_port": 22},
            "a247ae9fa2b5c6b68985839708fc990445fc69d7",
        ),
        (
            sets.NETWORK_ADDRESSES,
            {"iface": "eth0", "proto": 0, "address": "10.0.0.5"},
            "ac0300b269fc108b9c48a0f250bdbab421dee067",
        ),
        (
            sets.NETWORK_ADDRESSES,
            {"iface": "eth0", "proto": "ipv4", "address": "10.0.0.5"},
            "ac0300b269fc108b9c48a0f250bdbab421dee067",
        ),
        (sets.NETWORK_PROTOCOLS, {"iface": "eth0", "type": "ipv4"}, "f19629d858393054b7075ec6db3d778db7f18f30"),
        (
            sets.NETWORK_INTERFACES,
            {"name": "eth0", "adapter": "", "type": "ethernet"},
            "d4aa8b01955e438235d586585492f3f5edceec1b",
        ),
        (
            sets.SERVICES,
            {"service_id": "demo.service", "file_path": " "},
            "01e70ccbe4759e3355ec1fe227c6ab388b9aa5ff",
        ),
        (
            sets.BROWSER_EXTENSIONS,
            {
                "browser_name": "firefox", "user_id": "1000", "browser_profile_path": " ",
                "package_name": "Demo Add-on", "package_version": "3.2",
            },
            "8808a9ba6c1cd3f25d43e6f1c1897fe9d09f5ce2",
        ),
    ],
)  # fmt: skip
def test_names_that_agents_give(data_set: DataSet, members: dict[str, Any], expected: str) -> None:
    assert item_id(data_set, members) == expected
    assert key_of(data_set, members) == expected
    assert key_of(data_set, members, "from the state") == "from the state"
    assert key_of(data_set, members | {"item_id": "own"}, "from the state") == "own"


def row(data_set: DataSet, *, strict: bool = False, **members: Any) -> dict[str, Any]:
    return converted_row(data_set, named(data_set, members), strict=strict)


def test_numbers() -> None:
    hardware = row(sets.HARDWARE, cpu_cores="4", cpu_mhz="2400.5", ram_total=1 << 70, ram_free=0, ram_usage=101)
    assert hardware == {
        "cpu_name": None, "cpu_cores": 4, "cpu_mhz": 2400.5, "ram_total": MAX_INTEGER, "ram_free": None,
        "ram_usage": None, "scan_time": None, "checksum": None,
    }  # fmt: skip
    assert row(sets.PORTS, local_port=-1, remote_port=0, inode="18446744073709551615")["inode"] == MAX_INTEGER
    assert row(sets.NETWORK_PROTOCOLS, metric="100")["metric"] == 100
    assert row(sets.NETWORK_PROTOCOLS, metric=" ")["metric"] is None
    with pytest.raises(MalformedMessage):
        row(sets.NETWORK_PROTOCOLS, metric=" ", strict=True)
    assert row(sets.PROCESSES, strict=True, utime=None)["utime"] == 0
    assert row(sets.USERS, user_id=4294967295, user_created=-1.0, user_last_login=0)["user_id"] == 4294967295


def test_texts() -> None:
    package = row(sets.PACKAGES, vendor="", version=5, groups="utils", source=" ", format=None)
    assert [package[name] for name in ("vendor", "version", "section", "source", "format", "location")] == [
        None, "5", "utils", " ", "", "",
    ]  # fmt: skip
    assert row(sets.PACKAGES, vendor=["x"])["vendor"] is None
    with pytest.raises(MalformedMessage):
        row(sets.PACKAGES, vendor=["x"], strict=True)
    assert row(sets.SERVICES, process_working_dir="/srv")["process_working_directory"] == "/srv"


def test_names_in_another_case() -> None:
    assert row(sets.HARDWARE, cpu_MHz=2.5)["cpu_mhz"] == 2.5
    assert row(sets.NETWORK_PROTOCOLS, DHCP="BOOTP")["dhcp"] == "BOOTP"
    assert row(sets.NETWORK_INTERFACES, MAC="00:00", MTU=1500, newer={"x": 1})["mtu"] == 1500


@pytest.mark.parametrize("strict", [False, True])
def test_dhcp_has_four_values(strict: bool) -> None:
    with pytest.raises(MalformedMessage):
        row(sets.NETWORK_PROTOCOLS, dhcp="maybe", metric=1, strict=strict)


def test_addresses_have_a_protocol() -> None:
    found = [row(sets.NETWORK_ADDRESSES, proto=proto)["proto"] for proto in (0, 1, "ipv6")]
    assert found == ["ipv4", "ipv6", "ipv6"]


def test_keys_that_are_refused() -> None:
    for data_set, members in [(sets.HOTFIXES, {}), (sets.PROCESSES, {"pid": "-1"}), (sets.USERS, {"user_name": ""})]:
        with pytest.raises(MalformedMessage):
            key_of(data_set, members)
    assert key_of(sets.HARDWARE, {}) == ""


def test_the_identity_of_a_system() -> None:
    system = row(sets.OPERATING_SYSTEMS, architecture="x86_64", os_version="22.04")
    assert reference(system | {"os_name": "Ubuntu"}) == hashlib.sha1(b"x86_64Ubuntu22.04").hexdigest()


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@given(data=st.data(), data_set=st.sampled_from(DATA_SETS), strict=st.booleans())
def test_any_value_becomes_one_that_the_store_takes(data: st.DataObject, data_set: DataSet, strict: bool) -> None:
    names = st.sampled_from(list(data_set.table.columns.keys()))
    members = data.draw(st.dictionaries(names, VALUES))
    try:
        found = converted_row(data_set, members, strict=strict)
    except MalformedMessage:
        return
    for value in found.values():
        assert isinstance(value, str | float | None) or abs(value) <= MAX_INTEGER + 1
