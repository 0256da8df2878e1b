"""Installations of toys, in folders short enough for the sockets below them."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import command
from secmon.common.paths import Paths
from secmon.daemons.control_sockets import SupervisorClient, daemon_socket
from secmon.daemons.run_files import daemon_states, process_start
from secmon.daemons.supervisor_lock import SupervisorLock
from tests.folders import REPOSITORY
from tests.waiting import LIMIT_SECONDS, wait_until


class ToyNode:
    """An installation whose supervisor runs two toys, in processes of their own unless ``single``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = Paths(root)
        self.process: subprocess.Popen[bytes] | None = None
        for folder in (self.paths.run, self.paths.sockets, self.paths.logs):
            folder.mkdir(parents=True)

    def start(self, *options: str, wait: bool = True) -> None:
        command = [sys.executable, "-m", "tests.daemons.toysupervisor", str(self.root), *options]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        with (self.root / "output").open("ab") as output:
            self.process = subprocess.Popen(command, cwd="/", env=environment, stdout=output, stderr=output)
        if wait:
            wait_until(lambda: self.phase() == "running", "the node runs")

    def end(self) -> int:
        """TERM, and the status that comes of it."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(LIMIT_SECONDS)

    def ask(self, command: str) -> Any:
        return asyncio.run(SupervisorClient(self.paths).send(command))

    def ask_daemon(self, daemon: str, name: str, **arguments: Any) -> Any:
        return asyncio.run(command(daemon_socket(self.paths, daemon), name, **arguments))

    def phase(self) -> str:
        try:
            return str(self.ask("status")["phase"])
        except SecmonError:
            return "absent"

    def pid(self, daemon: str) -> int | None:
        found = [each["pid"] for each in self.ask("status")["processes"] if each["daemon"] == daemon]
        return int(found[0]) if found and found[0] else None

    def state(self, daemon: str) -> str:
        return daemon_states(self.paths)[daemon]

    def journal(self) -> list[tuple[str, str]]:
        """What the toys did: daemon and deed."""
        path = self.root / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(daemon, deed) for daemon, deed, _ in (line.split() for line in lines)]

    def output(self) -> str:
        return (self.root / "output").read_text()

    def leftovers(self) -> list[str]:
        """Run files and sockets that should not be there after a clean stop."""
        found = [*self.paths.run.iterdir(), *self.paths.sockets.iterdir()]
        return sorted(path.name for path in found)

    def kill_everything(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        pids = [int(path.stem.rpartition("-")[2]) for path in self.paths.run.glob("*.pid")]
        wait_until(lambda: not any(process_start(pid) for pid in pids), "the toys end with their supervisor")


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="secmon-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def node(root: Path) -> Iterator[ToyNode]:
    node = ToyNode(root)
    yield node
    node.kill_everything()


@pytest.fixture
def running(node: ToyNode) -> ToyNode:
    node.start()
    return node


@pytest.fixture
def lock(root: Path) -> SupervisorLock:
    (root / "run").mkdir()
    return SupervisorLock(root)
