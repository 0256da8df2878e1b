"""Real nodes, driven from the command line as an operator does it."""

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.daemons.demo.ports import free_port
from secmon.daemons.run_files import daemon_states, pid_files, process_start
from secmon.daemons.supervisor_lock import SupervisorLock
from tests.folders import REPOSITORY
from tests.waiting import LIMIT_SECONDS, wait_until

LOOPBACK = "127.0.0.1"
PASSWORD = "A-Secret-Word-77"


def secmon(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "secmon.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=LIMIT_SECONDS)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def answers(port: int) -> bool:
    """Whether the API on ``port`` asks for credentials, as it should."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        urllib.request.urlopen(f"https://{LOOPBACK}:{port}/", timeout=5, context=tls)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 401
    except OSError:
        return False
    return True


def pids(paths: Paths) -> list[int]:
    return [int(file.stem.rpartition("-")[2]) for files in pid_files(paths.run).values() for file in files]


def pid_of(paths: Paths, daemon: str) -> int:
    return int(pid_files(paths.run)[daemon][0].stem.rpartition("-")[2])


def agent_ports(port: int) -> tuple[str, ...]:
    """Options that keep the agents' ports of this node apart from those of others here."""
    first = free_port("0.0.0.0", port + 20, set(), count=2)
    return "--agent-port", str(first), "--auth-port", str(first + 1)


def started(paths: Paths, port: int) -> None:
    """Where an earlier test has stopped the node, it runs again."""
    if not answers(port):
        secmon("start", "--root", str(paths.root), "--daemonize")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For the nodes that the tests of this file share."""
    folder = Path(tempfile.mkdtemp(prefix="secmon-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def alone_once(folder: Path) -> Iterator[tuple[Paths, int]]:
    port = free_port(LOOPBACK, 14_000 + os.getpid() % 40 * 100, set())
    paths = Paths(folder / "n")
    secmon("init", str(paths.root), "--api-host", LOOPBACK, "--api-port", str(port), *agent_ports(port))
    paths.local_internal_options.write_text("daemons.stop_timeout=90\n")
    yield paths, port
    secmon("stop", "--root", str(paths.root))


@pytest.fixture
def alone(alone_once: tuple[Paths, int]) -> Iterator[tuple[Paths, int]]:
    """A stand-alone node that runs in the background, and its API port."""
    paths, _ = alone_once
    installed = paths.api_config.read_bytes()
    started(*alone_once)
    yield alone_once
    paths.api_config.write_bytes(installed)


def test_node_in_the_background(alone: tuple[Paths, int]) -> None:
    paths, port = alone
    root = str(paths.root)
    assert answers(port)
    lines = [line.split() for line in secmon("status", "--root", root).stdout.splitlines()]
    assert ["secmon-apid", "running"] in lines
    assert {state for _, state in lines} == {"running"}
    refused = secmon("start", "--root", root, check=False)
    assert refused.returncode == 1
    assert "is already running" in refused.stderr
    killed = pid_of(paths, "secmon-apid")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: daemon_states(paths)["secmon-apid"] == "running" and killed not in pids(paths), "it is back")
    assert answers(port)
    before = pids(paths)
    secmon("restart", "--root", root)
    assert pids(paths) != before
    assert answers(port)


def test_restart_with_an_invalid_configuration_is_refused(alone: tuple[Paths, int]) -> None:
    paths, port = alone
    before = pids(paths)
    paths.api_config.write_text("prot: 55000\n")
    refused = secmon("restart", "--root", str(paths.root), check=False)
    assert refused.returncode == 1
    assert "prot" in refused.stderr
    assert pids(paths) == before
    assert answers(port)


def test_stopped_node_leaves_nothing(alone: tuple[Paths, int]) -> None:
    paths, port = alone
    processes = pids(paths)
    secmon("stop", "--root", str(paths.root))
    assert not answers(port)
    assert {process_start(pid) for pid in processes} == {None}
    assert list(paths.run.iterdir()) == []
    assert list(paths.sockets.iterdir()) == []


def test_node_in_the_background_in_one_process(alone: tuple[Paths, int]) -> None:
    paths, port = alone
    secmon("stop", "--root", str(paths.root))
    secmon("start", "--root", str(paths.root), "--daemonize", "--single-process")
    assert answers(port)
    assert set(pids(paths)) == {SupervisorLock(paths.root).holder()}
    secmon("stop", "--root", str(paths.root))


def test_node_in_the_foreground_logs_for_its_starter_too(root: Path) -> None:
    port = free_port(LOOPBACK, 14_000 + os.getpid() % 40 * 100, set())
    secmon("init", str(root / "n"), "--api-host", LOOPBACK, "--api-port", str(port), *agent_ports(port))
    with (root / "n/etc/ossec.conf").open("a") as file:
        file.write("<ossec_config><database_output><hostname>192.0.2.1</hostname></database_output></ossec_config>\n")
    command = [sys.executable, "-m", "secmon.cli", "start", "--root", str(root / "n")]
    with (root / "errors").open("wb") as errors:
        node = subprocess.Popen(command, stderr=errors, cwd=REPOSITORY)
    try:
        wait_until(lambda: " secmon: INFO: secmon is running" in (root / "errors").read_text(), "the node runs")
    finally:
        node.terminate()
    assert node.wait(LIMIT_SECONDS) == 0
    printed = (root / "errors").read_text()
    assert re.search(r" secmon: WARNING: \S+ossec.conf:\d+: database_output: no effect in this version", printed)
    assert " secmon-apid: INFO: secmon-apid is running" in printed
    assert " secmon-apid: INFO: secmon-apid has stopped" in printed


def test_port_in_use_is_one_clear_line(alone: tuple[Paths, int], root: Path) -> None:
    _, port = alone
    other = root / "m"
    secmon("init", str(other), "--api-host", LOOPBACK, "--api-port", str(port), *agent_ports(port))
    failed = secmon("start", "--root", str(other), check=False)
    assert failed.returncode == 1
    said = (
        f"{LOOPBACK}, port {port}: Address already in use; change host or port in {other}/api/configuration/api.yaml."
    )
    assert re.search(
        rf"^Error when trying to start the secmon API\. 2010 - .*: {re.escape(said)}$", failed.stdout, re.M
    )
    assert "Traceback" not in failed.stdout + failed.stderr


def pasted(lines: list[str]) -> list[dict[str, Any]]:
    """The answers to lines of the demo in a shell; the first line logs in."""
    script = "\n".join([lines[0], "\necho\n".join(lines[1:])])
    output = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True).stdout.strip()
    answers = []
    while output:
        answer, end = json.JSONDecoder().raw_decode(output)
        answers.append(answer)
        output = output[end:].lstrip()
    return answers


def test_demo_from_start_to_end(root: Path) -> None:
    folder = root / "demo"
    first = 18_000 + os.getpid() % 100 * 10  # the default is of those that outgoing connections take
    command = [sys.executable, "-m", "secmon.cli", "demo", "--dir", str(folder), "--api-port", str(first)]
    with (root / "output").open("w") as output:
        demo = subprocess.Popen(command, stdout=output, stderr=output, cwd=REPOSITORY)
    try:
        wait_until(
            lambda: demo.poll() is not None or "Ctrl-C stops" in (root / "output").read_text(),
            "it prints how to stop it",
        )
        text = (root / "output").read_text()
        lines = re.findall(r"^  (TOKEN=.*|curl .*)$", text, re.M)
        assert len(lines) == 10, text
        nodes, validation, agents, *_ = pasted(lines)
        names = {"master-node", "worker1", "worker2"}
        assert {item["name"] for item in nodes["data"]["affected_items"]} == names
        assert {item["name"] for item in validation["data"]["affected_items"]} == names
        assert len(agents["data"]["affected_items"]) == 13  # a dozen, and the manager itself
        unanswered = lines[4:]

        def reported() -> bool:
            answers = zip(unanswered, pasted([lines[0], *unanswered]), strict=True)
            unanswered[:] = [line for line, answer in answers if not answer.get("data", {}).get("affected_items")]
            return not unanswered

        wait_until(reported, what="what a host reports")
        second = secmon("demo", "--dir", str(folder), check=False)
        assert second.returncode == 1
        assert "runs already" in second.stderr
        secmon("stop", "--root", str(folder / "worker2"))
        secmon("start", "--root", str(folder / "worker2"), "--daemonize")
    finally:
        demo.send_signal(signal.SIGINT)
        status = demo.wait(LIMIT_SECONDS)
    assert status == 0
    for name in ("master-node", "worker1", "worker2"):
        assert pids(Paths(folder / name)) == []


def ask(port: int, path: str, authorization: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
    """Status and document of one request."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(
        f"https://{LOOPBACK}:{port}{path}", method=method, headers={"Authorization": authorization}
    )
    try:
        with urllib.request.urlopen(request, timeout=60, context=tls) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def master_once(folder: Path) -> Iterator[tuple[Paths, int]]:
    # Apart from the other node, which may not run just now.
    paths, port = Paths(folder / "m"), free_port(LOOPBACK, 14_050 + os.getpid() % 40 * 100, set())
    peers = free_port(LOOPBACK, port + 1, set(), count=2)
    (folder / "password").write_text(PASSWORD)
    secmon(
        *("init", str(paths.root), "--type", "master", "--master", LOOPBACK, "--bind", LOOPBACK, "--port", str(peers)),
        *("--api-host", LOOPBACK, "--api-port", str(port), "--admin-password-file", str(folder / "password")),
        *agent_ports(port),
    )
    paths.local_internal_options.write_text("daemons.watchdog_ms=1000\ndaemons.watchdog_misses=50\n")
    yield paths, port
    secmon("stop", "--root", str(paths.root))


@pytest.fixture
def master(master_once: tuple[Paths, int]) -> tuple[Paths, int]:
    """A master that runs in the background, and its API port; the administrator has :data:`PASSWORD`."""
    started(*master_once)
    return master_once


def test_hung_cluster_daemon_is_reported_until_it_is_replaced(master: tuple[Paths, int]) -> None:
    paths, port = master
    basic = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
    _, login = ask(port, "/security/user/authenticate", f"Basic {basic}", "POST")
    token = f"Bearer {login['data']['token']}"
    hung = int(pid_files(paths.run)["secmon-clusterd"][0].stem.rpartition("-")[2])
    os.kill(hung, signal.SIGSTOP)
    _, states = ask(port, "/manager/status", token)
    assert states["data"]["affected_items"][0]["secmon-clusterd"] == "failed"
    assert states["data"]["affected_items"][0]["secmon-apid"] == "running"
    assert ask(port, "/cluster/status", token)[1]["data"] == {"enabled": "yes", "running": "no"}
    lines = secmon("status", "--root", str(paths.root)).stdout.splitlines()
    states = dict(line.split() for line in lines)
    assert (states["secmon-clusterd"], states["secmon-apid"]) == ("failed", "running")
    reported = secmon("cluster", "nodes", "--root", str(paths.root), check=False)
    assert (reported.returncode, "did not answer in time" in reported.stderr) == (1, True)
    assert ask(port, "/cluster/nodes", token)[1]["error"] in {3020, 3021}
    wait_until(lambda: process_start(hung) is None, "the watchdog kills it")
    wait_until(lambda: ask(port, "/cluster/nodes", token)[0] == 200, "another one serves")


def test_port_of_the_cluster_in_use_is_one_clear_line(master: tuple[Paths, int], root: Path) -> None:
    paths, port = master
    peers, worker, key = load_main_config(paths).cluster.port, root / "w", root / "key"
    key.write_text(load_main_config(paths).cluster.key)
    secmon(
        *("init", str(worker), "--type", "worker", "--node-name", "w", "--master", LOOPBACK, "--port", str(peers)),
        *("--bind", LOOPBACK, "--api-host", LOOPBACK, "--key-file", str(key)),
        *("--api-port", str(free_port(LOOPBACK, port + 1, {peers, peers + 1}))),
        *agent_ports(port),
    )
    failed = secmon("start", "--root", str(worker), check=False)
    assert failed.returncode == 1
    file = f"{worker}/etc/local_internal_options.conf"
    said = f"{LOOPBACK}, port {peers}: Address already in use; change clusterd.peer_port in {file}."
    assert re.search(
        rf"^Error when trying to start secmon-clusterd\. 2010 - .*: {re.escape(said)}", failed.stdout, re.M
    )
    assert "Traceback" not in failed.stdout + failed.stderr


def test_worker_that_is_refused_says_why(master: tuple[Paths, int], root: Path) -> None:
    paths, port = master
    peers, worker, key = load_main_config(paths).cluster.port, Paths(root / "w"), root / "key"
    key.write_text("x" * 32)
    api = free_port(LOOPBACK, port + 3, set())
    secmon(
        *("init", str(worker.root), "--type", "worker", "--node-name", "w", "--master", LOOPBACK, "--port", str(peers)),
        *("--bind", LOOPBACK, "--api-host", LOOPBACK, "--api-port", str(api), "--key-file", str(key)),
        *("--peer-port", str(free_port(LOOPBACK, api + 1, set()))),
        *agent_ports(port),
    )
    secmon("start", "--root", str(worker.root), "--daemonize")
    try:
        said = "the master refuses it: 3025: The proof of the cluster key is wrong"
        wait_until(lambda: said in ask(api, "/cluster/nodes", "Bearer x")[1]["detail"], "the API names the cause")
        status, problem = ask(api, "/cluster/nodes", "Bearer x")
        assert (status, problem["error"]) == (503, 3043)
        reported = secmon("cluster", "nodes", "--root", str(worker.root), check=False)
        assert (reported.returncode, said in reported.stderr) == (1, True), reported.stderr
    finally:
        secmon("stop", "--root", str(worker.root))


def test_everything_by_which_a_node_is_found_comes_back(master: tuple[Paths, int]) -> None:
    paths, _ = master
    before = sorted(pids(paths))
    for folder in (paths.run, paths.sockets):
        for file in folder.iterdir():
            file.unlink()
    paths.cluster_socket.unlink()
    refused = secmon("start", "--root", str(paths.root), check=False)
    assert (refused.returncode, "is already running" in refused.stderr) == (1, True)
    wait_until(lambda: sorted(pids(paths)) == before, "the daemons are found again")
    wait_until(paths.cluster_socket.exists, "the cluster daemon can be asked")
    wait_until(paths.control_socket.exists, "the supervisor can be asked")
    for socket in (paths.analysis_socket, paths.queue_socket, paths.logtest_socket, paths.agent_link_socket):
        wait_until(socket.exists, f"{socket} can be asked")
    assert secmon("cluster", "nodes", "--root", str(paths.root)).stdout.startswith("NAME")


def test_commands_while_a_node_stops(alone: tuple[Paths, int]) -> None:
    paths, port = alone
    root = str(paths.root)
    frozen = pid_of(paths, "secmon-apid")
    os.kill(frozen, signal.SIGSTOP)  # so that the stop takes its full time
    stopped = secmon("stop", "--root", root, "--timeout", "1", check=False)
    assert (stopped.returncode, "still runs" in stopped.stderr) == (1, True)
    reported = secmon("status", "--root", root, check=False)
    assert (reported.returncode, f"secmon is being stopped in {root} (process " in reported.stderr) == (0, True)
    started = secmon("start", "--root", root, check=False)
    assert (started.returncode, "is still being stopped" in started.stderr) == (1, True)
    reloaded = secmon("reload", "--root", root, check=False)
    assert (reloaded.returncode, "the node is being stopped" in reloaded.stderr) == (1, True)
    late = secmon("restart", "--root", root, "--timeout", "1", check=False)
    assert (late.returncode, "has not stopped" in late.stderr) == (1, True)
    command = [sys.executable, "-m", "secmon.cli", "restart", "--root", root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=REPOSITORY) as restarting:
        assert restarting.stdout is not None
        assert "it is started again when it has stopped" in restarting.stdout.readline()
        os.kill(frozen, signal.SIGKILL)
        assert "runs in the background" in restarting.stdout.read()
    assert restarting.returncode == 0
    assert answers(port)
    assert process_start(frozen) is None
