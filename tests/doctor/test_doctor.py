"""``secmon doctor``: what it finds on a node that does not run, and on its host."""

import json
import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secmon.cluster.record.engine import RecordAddress
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.common.self_signed import self_signed
from secmon.config.api import ApiConfig
from secmon.config.cluster import ClusterSection
from secmon.config.port_check import Port
from secmon.daemons.install import install
from secmon.doctor.files import check_certificates, check_secrets
from secmon.doctor.finding import Finding
from secmon.doctor.host import check_clock, check_disk, check_limits
from secmon.doctor.network import check_answers, check_clocks, check_master, check_ports, check_record
from secmon.operations.nodes.clocks import NodeClock
from tests.cli.runner import run
from tests.manual_clock import ManualClock


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    made = Paths(tmp_path_factory.mktemp("doctor") / "node")
    install(made, cluster=None)
    return made


def states(found: Iterator[Finding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.state) for finding in found]


def examined(paths: Paths) -> tuple[int, list[dict[str, Any]]]:
    done = run("doctor", "--root", paths.root, "--json")
    return done.exit_code, json.loads(done.stdout)["data"]["findings"]


@pytest.fixture
def listener() -> Iterator[int]:
    """A port that this process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_each_line_says_what_is_wrong_and_what_to_do(paths: Paths) -> None:
    code, found = examined(paths)
    assert all(finding["remedy"] for finding in found if finding["state"] != "ok")
    assert {"disk", "clock", "user", "configuration and stores", "secrets", "ports", "daemons"} <= {
        finding["check"] for finding in found
    }
    problems = [finding for finding in found if finding["state"] == "problem"]
    assert code == (1 if problems else 0)
    assert {finding["check"] for finding in problems} <= {"ports", "disk"}  # of this host
    plain = run("doctor", "--root", paths.root, "--quiet")
    assert "secmon start --root" in plain.output
    assert "\nok " not in plain.output


def test_a_damaged_store_and_a_wrong_option_are_named(paths: Paths) -> None:
    whole, config = paths.security_db.read_bytes(), paths.main_config.read_bytes()
    try:
        paths.security_db.write_bytes(b"no database" * 100)
        code, found = examined(paths)
        assert code == 1
        assert any("is damaged" in each["text"] for each in found if each["state"] == "problem")
        paths.main_config.write_bytes(b"<ossec_config><remote>")
        code, found = examined(paths)
        assert code == 1
        assert any("ossec.conf" in each["text"] for each in found if each["state"] == "problem")
    finally:
        paths.security_db.write_bytes(whole)
        paths.main_config.write_bytes(config)


def test_a_port_that_another_process_uses_is_named(listener: int) -> None:
    port = Port("127.0.0.1", listener, "port", Path("api.yaml"))
    (taken,) = check_ports([port], running=False)
    assert taken.state == "problem"
    assert f"uses port {listener}" in taken.text
    assert "change port in api.yaml" in taken.remedy
    (answers,) = check_ports([port], running=True)
    assert answers.state == "ok"


@pytest.mark.parametrize("host", ["\x9b2J", "a\x00b", "a." + "b" * 70])
def test_an_address_that_is_none(host: str) -> None:
    for running in (False, True):
        (found,) = check_ports([Port(host, 20_000, "remote.local_ip", Path("ossec.conf"))], running=running)
        assert found.state == "problem"


def test_a_port_on_which_nothing_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = Port("0.0.0.0", closed.getsockname()[1], "remote.port", Path("ossec.conf"))
        (silent,) = check_ports([port], running=True)
        assert silent.state == "problem"
        assert "nothing answers" in silent.text
        worker = ClusterSection(node_type="worker", nodes=["127.0.0.1"])
        assert states(check_master(worker, port.number))[:2] == [("names", "ok"), ("nodes", "problem")]


def test_names_that_cannot_be_resolved() -> None:
    worker = ClusterSection(node_type="worker", nodes=["no-such-host.invalid"])
    assert states(check_master(worker, 1516)) == [("names", "problem")]
    assert states(check_master(ClusterSection(node_type="master", nodes=["no-such-host.invalid"]), 1516)) == []


def test_clocks_of_nodes_that_differ_and_nodes_that_do_not_answer() -> None:
    clocks = [NodeClock("m1", 0.0, 0.5), NodeClock("w1", -2.4, 0.5)]
    assert states(check_clocks(clocks)) == [("clock", "ok")], "it may be the network"
    (found,) = check_clocks([*clocks, NodeClock("w2", -63.0, 0.5)])
    assert (found.state, found.text) == ("warning", "that of w2 is 63.0 s behind the master's")
    assert states(check_clocks([])) == []
    (silent,) = check_answers({"w3": "it has not answered in time"})
    assert (silent.state, "w3" in silent.remedy) == ("problem", True)


def test_a_store_of_record_that_cannot_be_reached() -> None:
    address = RecordAddress("postgresql://secmon@127.0.0.1:1/record")
    assert states(check_record(address, SystemClock())) == [("store of record", "problem")]


def test_certificates_by_the_days_that_are_left(paths: Paths) -> None:
    now = SystemClock().now()
    _, certificate = self_signed("node", ManualClock(now), days=100)
    (paths.etc / "sslmanager.cert").write_bytes(certificate)
    try:
        for days, state in ((0, "ok"), (69, "ok"), (71, "warning"), (99, "warning"), (101, "problem")):
            found = list(check_certificates(paths, ApiConfig(), now + timedelta(days=days)))
            assert states(iter(found)) == [("certificates", state)]
        (paths.etc / "sslmanager.cert").write_text("none")
        assert states(check_certificates(paths, ApiConfig(), now)) == [("certificates", "problem")]
    finally:
        (paths.etc / "sslmanager.cert").unlink()


def test_secrets_that_every_user_can_open(paths: Paths) -> None:
    assert states(check_secrets(paths)) == [("secrets", "ok")]
    password = paths.etc / "authd.pass"
    password.write_text("secret")
    password.chmod(0o644)
    assert states(check_secrets(paths)) == [("secrets", "ok")]  # no other user can enter the folder
    modes = {folder: folder.stat().st_mode & 0o7777 for folder in (paths.root, paths.etc)}
    try:
        for folder in modes:
            folder.chmod(0o755)
        (found,) = check_secrets(paths)
        assert found.state == "problem"
        assert str(password) in found.text
        assert f"chmod o= {password}" in found.remedy
        assert "secret" not in found.text.replace("secrets", "")
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)
        password.unlink()


def test_limits_and_disk(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(check_limits(paths, 1)) == [("limits", "ok")]
    (few,) = check_limits(paths, 1 << 40)
    assert few.state == "problem"
    assert "LimitNOFILE=" in few.remedy
    assert states(check_clock())[0][0] == "clock"

    def disk(free: int, inodes: int = 100) -> list[tuple[str, str]]:
        found = SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=100 << 30, f_files=100, f_favail=inodes)
        monkeypatch.setattr(os, "statvfs", lambda _: found)
        return states(check_disk(paths))[:1]

    assert disk(50 << 30) == [("disk", "ok")]
    assert disk(1 << 30) == [("disk", "warning")]
    assert disk(50 << 30, inodes=1) == [("disk", "warning")]
    assert disk(1 << 20) == [("disk", "problem")]
