"""A cluster as it is installed: by root, with daemons of the service user."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from tests import serviceuser
from tests.folders import short_root
from tests.integration.kit import KEY, QUICK, RealCluster, RealNode, free_port
from tests.integration.nodelogs import troubles, undated
from tests.integration.test_agents import agents_of, fleet_of
from tests.simulator.background import running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not serviceuser.usable(), reason="needs root and mount namespaces"),
]

PASSWORD = "A-Secret-Word-77"


@pytest.fixture
def installed() -> Iterator[RealCluster]:
    """A master and a worker, not started yet."""
    folder = Path(tempfile.mkdtemp(prefix="si-", dir=short_root()))
    folder.chmod(0o755)
    port, enrolment = free_port(), free_port()
    options = {**QUICK, "clusterd.enrol_port": enrolment}
    made = [
        install(folder, "master", port, options),
        install(folder, "worker", port, {**options, "clusterd.peer_port": 0}),
    ]
    yield RealCluster(made[0], [made[1]], PASSWORD, folder)
    for node in made:
        node.stop()
    shutil.rmtree(folder)


def install(folder: Path, name: str, port: int, options: dict[str, int]) -> RealNode:
    node = RealNode(Paths(folder / name), name, "127.0.0.1", free_port(), serviceuser.prefix(), PASSWORD)
    secrets = {"key": KEY, "password": PASSWORD}
    for secret, value in secrets.items():
        (folder / secret).write_text(value)
        (folder / secret).chmod(0o600)
    arguments = ["--type", name, "--node-name", name, "--master", "127.0.0.1", "--bind", "127.0.0.1", "--port", port]
    arguments += ["--api-host", "127.0.0.1", "--api-port", node.api_port, "--agent-port", free_port()]
    arguments += ["--auth-port", free_port(), "--key-file", folder / "key"]
    arguments += ["--admin-password-file", folder / "password"] if name == "master" else []
    secmon(node, "init", str(node.paths.root), *map(str, arguments))
    node.paths.local_internal_options.write_text("".join(f"{one}={value}\n" for one, value in options.items()))
    return node


def secmon(node: RealNode, *arguments: str) -> None:
    command = [*node.prefix, sys.executable, "-m", "secmon.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_life_without_an_error(installed: RealCluster) -> None:
    for node in installed.nodes:
        write_old_log(node)
        node.start()
    installed.wait_whole()
    with running(fleet_of(installed.nodes, 4, "life")) as fleet:
        fleet.until(lambda c: c.connected == 4)
        wait_until(lambda: {one["status"] for one in agents_of(installed, "life").values()} == {"active"})
        ids = [one["id"] for one in agents_of(installed, "life").values()]
        wait_until(lambda: all(set(ids) <= registered(node) for node in installed.nodes), what="times on all nodes")
        worker = installed.workers[0]
        installed.call(worker, "/groups", method="POST", json={"group_id": "web"})
        installed.call(worker, f"/agents/group?group_id=web&agents_list={ids[0]}", method="PUT")
        installed.wait_converged()
        acked = fleet.counters.acked
        for node in installed.nodes:
            secmon(node, "restart", "--root", str(node.paths.root))
        installed.wait_whole()
        fleet.until(lambda c: c.connected == 4 and c.acked >= acked + 4)
        installed.call(worker, f"/agents?status=all&older_than=0s&purge=true&agents_list={ids[1]}", method="DELETE")
        wait_until(lambda: all(ids[1] not in registered(node) for node in installed.nodes), what="one is gone")
    for node in installed.nodes:
        wait_until(lambda node=node: list(node.paths.logs.glob("secmon/*/*/ossec-*.log.gz")), what="rotation")  # type: ignore[misc]
        secmon(node, "stop", "--root", str(node.paths.root))
    wait_until(lambda: all(node.process and node.process.poll() == 0 for node in installed.nodes), what="they end")
    assert [line for node in installed.nodes for line in troubles(node)] == []
    assert [line for node in installed.nodes for line in undated(node)] == []


def write_old_log(node: RealNode) -> None:
    """A log that a node of yesterday has left."""
    file = node.paths.logs / "ossec.log"
    yesterday = SystemClock().now().astimezone() - timedelta(days=1)
    file.write_text(f"{yesterday:%Y/%m/%d %H:%M:%S} secmon: INFO: it was yesterday\n")
    os.chown(file, serviceuser.UID, serviceuser.UID)


def registered(node: RealNode) -> set[str]:
    """The agents that the file of times names."""
    file = node.paths.root / "queue/agents-timestamp"
    return {line.split()[0] for line in file.read_text().splitlines()} if file.exists() else set()
