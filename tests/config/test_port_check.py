"""Ports of one node that are the same."""

from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.api import ApiConfig
from secmon.config.auth import AuthSettings
from secmon.config.checks import validate_installation
from secmon.config.cluster import ClusterSection, NodeType
from secmon.config.options import InternalOptions
from secmon.config.port_check import check_ports
from secmon.config.remote import RemoteBlock
from secmon.daemons.installation_files import create_installation_files

PATHS = Paths(Path("/opt/n"))
API, MAIN, OPTIONS = (
    "/opt/n/api/configuration/api.yaml",
    "/opt/n/etc/ossec.conf",
    "/opt/n/etc/local_internal_options.conf",
)
ENROL = "cluster.port + 1, which is for enrolment,"


def found(
    node_type: NodeType = "master", port: int = 1516, api: str = "0.0.0.0", bind: str = "0.0.0.0", **options: int
) -> list[str]:
    cluster = ClusterSection(node_type=node_type, bind_addr=bind, disabled=bool(options.pop("disabled", False)))
    values = InternalOptions({f"clusterd.{name}": value for name, value in options.items()})
    return [str(each.extra) for each in check_ports(PATHS, ApiConfig(host=api, port=port), cluster, values)]


def clash(file: str, option: str, port: int, other: str, other_file: str) -> str:
    allowed = f"a port other than {other} of {other_file}: this node listens on both"
    return f"{file}: {option}: {port} is not allowed; allowed: {allowed}"


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"port": 1516}, clash(API, "port", 1516, "cluster.port", MAIN)),
        ({"port": 1517}, clash(API, "port", 1517, ENROL, MAIN)),
        ({"port": 1600, "peer_port": 1600}, clash(API, "port", 1600, "clusterd.peer_port", OPTIONS)),
        ({"port": 1600, "enrol_port": 1600}, clash(API, "port", 1600, "clusterd.enrol_port", OPTIONS)),
        ({"port": 1, "peer_port": 1517}, clash(OPTIONS, "clusterd.peer_port", 1517, ENROL, MAIN)),
        ({"port": 1, "enrol_port": 1516}, clash(MAIN, "cluster.port", 1516, "clusterd.enrol_port", OPTIONS)),
        ({"node_type": "worker"}, clash(API, "port", 1516, "cluster.port", MAIN)),
        ({"api": "10.0.0.1", "bind": "10.0.0.1"}, clash(API, "port", 1516, "cluster.port", MAIN)),
        ({"api": "::", "bind": "10.0.0.1"}, clash(API, "port", 1516, "cluster.port", MAIN)),
        ({"api": "localhost", "bind": "127.0.0.1"}, clash(API, "port", 1516, "cluster.port", MAIN)),
    ],
)
def test_both_options_are_named(configuration: dict[str, object], said: str) -> None:
    assert found(**configuration) == [said]  # type: ignore[arg-type]


def test_agents_come_in_elsewhere() -> None:
    cluster, api, options = ClusterSection(disabled=True), ApiConfig(port=1515), InternalOptions.defaults()
    auth, udp = AuthSettings(disabled=False), RemoteBlock(port=1515, protocols=("udp",))
    (problem,) = check_ports(PATHS, api, cluster, options, auth=auth, remote=[udp])
    assert problem.extra == clash(API, "port", 1515, "auth.port", MAIN)
    (problem,) = check_ports(PATHS, ApiConfig(), cluster, options, auth=auth, remote=[RemoteBlock(port=1515)])
    assert problem.extra == clash(MAIN, "auth.port", 1515, "remote.port", MAIN)
    assert not list(check_ports(PATHS, api, cluster, options, auth=AuthSettings(disabled=True)))


@pytest.mark.parametrize(
    "configuration",
    [
        {"port": 55000},
        {"disabled": 1},
        {"node_type": "worker", "port": 1517},  # it has no enrolment port
        {"node_type": "worker", "peer_port": 1600},  # cluster.port is the master's
        {"api": "10.0.0.1", "bind": "10.0.0.2"},
        {"port": 1, "peer_port": 0, "enrol_port": 0},  # any free ones
    ],
)
def test_ports_that_do_not_meet(configuration: dict[str, object]) -> None:
    assert found(**configuration) == []  # type: ignore[arg-type]


def test_the_check_of_an_installation_finds_them(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "n")
    cluster = ClusterSection(key="k" * 32, nodes=["10.0.0.1"])
    create_installation_files(paths, cluster=cluster, api_overrides={"port": 1517})
    (problem,) = validate_installation(paths)
    assert (problem.file, problem.key, problem.value) == (str(paths.api_config), "port", "1517")
    assert "cluster.port + 1" in problem.allowed
    paths.local_internal_options.write_text("clusterd.enrol_port=1600\n")
    assert validate_installation(paths) == []
