"""Checks before an upgrade, in their order (agent-link.md 10.3)."""

from typing import Any

import pytest

from secmon.agents.upgrade_targets import Candidate, normal_version, obstacle, obstacle_to

UBUNTU = {"os_platform": "ubuntu", "os_major": "22", "os_minor": "04", "os_arch": "x86_64", "version": "Wazuh v4.7.0"}


def candidate(**values: Any) -> Candidate:
    known: dict[str, Any] = dict.fromkeys(Candidate._fields) | {"id": 1, "node_name": "alpha"} | UBUNTU | values
    return Candidate(**known)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, None),
        ({"os_platform": None}, 1816),
        ({"os_platform": ""}, 1816),
        ({"os_arch": None}, 1816),
        ({"os_major": None}, 1816),
        ({"os_minor": None}, 1816),
        ({"os_platform": "debian", "os_minor": None}, None),
        ({"os_platform": "debian", "os_major": ""}, 1816),
        ({"os_platform": "arch", "os_major": None}, None),
        ({"os_platform": "opensuse-tumbleweed", "os_major": None}, None),
        ({"os_platform": "windows", "os_major": None, "os_arch": None}, None),
        ({"os_platform": "darwin", "os_major": None, "os_arch": None, "version": "Wazuh v4.3.0"}, None),
        ({"os_platform": "darwin", "version": "Wazuh v4.2.9"}, 1821),
        ({"os_platform": "sunos"}, 1819),
        ({"os_platform": "hp-ux", "os_major": None}, 1816),
        ({"os_platform": "freebsd"}, 1819),
        ({"os_platform": "bsd"}, 1819),
        ({"os_platform": "sles", "os_major": "11"}, 1819),
        ({"os_platform": "sles", "os_major": "12"}, None),
        ({"os_platform": "rhel", "os_major": "5", "version": None}, 1819),
        ({"os_platform": "centos", "os_major": "5"}, 1819),
        ({"version": None}, 1816),
        ({"version": "4.7.0"}, 1816),
        ({"version": "Wazuh v3.0.0"}, None),
        ({"version": "OSSEC HIDS v2.9.0"}, 1821),
    ],
    ids=str,
)
def test_obstacles(values: dict[str, Any], code: int | None) -> None:
    assert obstacle(candidate(**values)) == code


@pytest.mark.parametrize(
    ("version", "target", "code"),
    [
        ("Wazuh v4.7.0", "v4.8.2", None),
        ("Wazuh v4.8.2", "v4.8.2", 1822),
        ("Wazuh v4.8.10", "v4.8.2", 1822),
        ("Wazuh v4.7.0", "v4.14.7", None),
        ("Wazuh v4.7.0", "v4.15.0", 1823),
        ("Wazuh v5.0.0", "v4.9.0", 1822),
        ("Wazuh v3.13.6", "v4.0.0", None),
    ],
)
def test_obstacles_on_the_way_to_a_version(version: str, target: str, code: int | None) -> None:
    assert obstacle_to(candidate(version=version), target, "4.14") == code


@pytest.mark.parametrize("text", ["4.8.2", "v4.8.2", "Wazuh v4.8.2", "wazuh 4.8.2", "V4.08.2"])
def test_versions_as_they_are_asked_for(text: str) -> None:
    assert normal_version(text) == "v4.8.2"
