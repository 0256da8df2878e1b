"""``secmon start``, ``stop``, ``restart`` and ``status`` of a node that does not run."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from secmon.cli import main
from secmon.daemons.supervisor_lock import SupervisorLock
from tests.cli.runner import run


def test_start_with_an_invalid_configuration_is_one_line(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("port: 99999999\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert re.fullmatch(r"Error when trying to start the secmon API\. 2000 - [^\n]*port[^\n]*\n", done.stdout)


def test_start_with_an_invalid_main_configuration(master: Path) -> None:
    (master / "etc/ossec.conf").write_text("<ossec_config><global>")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert done.stdout.startswith("Error when trying to start secmon. 2000 - ")


def test_start_with_ports_that_are_the_same_is_one_line(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("port: 1516\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert re.fullmatch(
        r"Error when trying to start [^\n]* 2000 - [^\n]*: port: 1516 [^\n]*cluster\.port[^\n]*\n", done.stdout
    )
    checked = run("config", "check", "--root", str(master))
    assert (checked.exit_code, "cluster.port" in checked.output) == (1, True)


def test_start_with_an_encrypted_key_needs_a_terminal(master: Path) -> None:
    (master / "api/configuration/ssl/server.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert "has a pass phrase: start secmon on a terminal" in done.output


def test_start_of_a_running_node_is_refused(master: Path) -> None:
    lock = SupervisorLock(master)
    lock.acquire()
    try:
        done = run("start", "--root", str(master))
    finally:
        lock.release()
    assert done.exit_code == 1
    assert "is already running" in done.output


def test_stopped_node(master: Path) -> None:
    assert run("stop", "--root", str(master)).exit_code == 0
    for command in ("restart", "reload", "status"):
        done = run(command, "--root", str(master))
        assert done.exit_code == 1
        assert "secmon is not running" in done.output


@pytest.mark.parametrize("command", ["stop", "restart"])
@pytest.mark.parametrize("seconds", ["-5", "0", "nan", "1e9"])
def test_time_limit_that_is_none_is_refused(master: Path, command: str, seconds: str) -> None:
    done = run(command, "--root", str(master), "--timeout", seconds)
    assert done.exit_code == 2
    assert "Invalid value for '--timeout'" in done.output


def test_status_as_json(master: Path) -> None:
    done = run("status", "--root", str(master), "--json")
    assert done.exit_code == 1
    states = json.loads(done.output)["data"]
    assert len(states) == 18
    assert {"daemon": "secmon-apid", "status": "stopped"} in states


def test_root_from_the_environment(master: Path) -> None:
    done = CliRunner().invoke(main, ["config", "check"], env={"SECMON_ROOT": str(master)})
    assert str(master) in done.output
