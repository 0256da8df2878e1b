"""The clusters that are measured: real processes with the timings of the product."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.harness import Answer, Client, request
from secmon.config.options import OPTIONS
from tests.integration.kit import QUICK, RealCluster, RealNode, free_port, make_node
from tests.waiting import wait_until

FULL_NODES = 2
"""Nodes of a large cluster whose daemons run as separate processes; the others run in one process each."""
LARGE = 4
GROUP_SIZE = 100
_START_SECONDS = 180.0
_DEFAULTS = {name: OPTIONS[name].default for name in QUICK}


class Bench:
    """One run: whether it is the short one, and the running cluster. At most one cluster runs at a time."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.notes: list[str] = []
        self._shape: tuple[int, int] | None = None
        self._cluster: RealCluster | None = None
        self._common: dict[str, Any] = {}

    def cluster(self, workers: int, *, files: int = 0) -> RealCluster:
        """A running cluster whose nodes have ``files`` group files; the one that runs already, if it fits."""
        if self._cluster is None or self._shape != (workers, files):
            self.stop()
            say(f"starting {workers + 1} node(s), {files} files")
            self._make(workers, files)
            self._shape = (workers, files)
        assert self._cluster is not None
        return self._cluster

    def add_worker(self, name: str) -> RealNode:
        """Install one more node for the running cluster; the caller starts and stops it."""
        assert self._cluster is not None
        return make_node(self._cluster.folder, name, api_port=free_port(), **self._common)

    def unconfirmed(self, what: str, answer: Answer) -> list[str]:
        """The nodes that the answer to a change of the security state names as late; a note says so.

        They are 20 on the cores of one machine: their confirmation may take longer than the answer waits. The time
        of that answer is a sample like the others. ``RuntimeError`` for a change that was refused.
        """
        if answer.status != 200:
            raise RuntimeError(f"{answer.head}{answer.body!r}")
        _, _, names = json.loads(answer.body).get("message", "").partition("Not yet confirmed by: ")
        if not names:
            return []
        self.notes.append(f"{what}: not yet confirmed by {names} when it was answered")
        found: list[str] = names.split(", ")
        return found

    def stop(self) -> None:
        """Stop and remove the running cluster."""
        made, self._cluster, self._shape = self._cluster, None, None
        if made is None:
            return
        for node in made.nodes:
            if node.process is not None:
                node.process.terminate()
        for node in made.nodes:
            node.stop()
        shutil.rmtree(made.folder, ignore_errors=True)

    def _make(self, workers: int, files: int) -> None:
        folder = Path(tempfile.mkdtemp(prefix="sb-", dir="/tmp"))  # short: unix sockets below it fit into 107 bytes
        options = {**_DEFAULTS, "clusterd.enrol_port": free_port()}
        self._common = {"master": "127.0.0.1", "cluster_port": free_port(), "options": options}
        master = make_node(folder, "master-node", role="master", api_port=free_port(), **self._common)
        assert master.password is not None
        nodes = [make_node(folder, f"worker{n}", api_port=free_port(), **self._common) for n in range(1, workers + 1)]
        self._cluster = RealCluster(master, nodes, master.password, folder)
        fill(master.paths.root, files)
        for node in nodes:
            copy_groups(master.paths.root, node.paths.root)
        for number, node in enumerate(self._cluster.nodes):
            start(node, single_process=workers > LARGE and number >= FULL_NODES)
        wait_until(self._whole, seconds=_START_SECONDS, what="all nodes joined and answering")

    def _whole(self) -> bool:
        made = self._cluster
        assert made is not None
        try:
            if len(made.members()) < len(made.nodes):
                return False
            issued = token(made, made.master)
            return all(_honours(node, issued) for node in made.nodes)
        except (AssertionError, OSError, RuntimeError, httpx.HTTPError):
            return False  # the API is ready before the cluster daemon


def _honours(node: RealNode, issued: dict[str, str]) -> bool:
    """Whether the node has the security state and a lease on it."""
    with Client(node.api_port) as client:
        return client.ask(request("GET", "/", issued)).status == 200


def start(node: RealNode, *, single_process: bool = False) -> None:
    """Start a node's processes and return at once."""
    command = [sys.executable, "-m", "secmon.cli", "start", "--root", str(node.paths.root)]
    with (node.paths.logs / "test-output.log").open("ab") as log:
        node.process = subprocess.Popen(
            command + ["--single-process"] * single_process, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def processes(node: RealNode) -> list[psutil.Process]:
    """The node's supervisor and its daemons."""
    assert node.process is not None
    supervisor = psutil.Process(node.process.pid)
    return [supervisor, *supervisor.children(recursive=True)]


def fill(root: Path, files: int, folder: str = "etc/shared") -> None:
    """Make ``files`` small group files (200 bytes to 4 KB, the same in every run)."""
    for first in range(0, files, GROUP_SIZE):
        group = root / folder / f"bench{first // GROUP_SIZE:04}"
        group.mkdir(mode=0o770, parents=True)
        for number in range(first, min(files, first + GROUP_SIZE)):
            file = group / f"file{number:06}.conf"
            file.write_bytes(f"# {number}\n".encode() * (25 + number * 7919 % 400))
            file.chmod(0o660)


def copy_groups(source: Path, target: Path) -> None:
    """Give an installation the group files of another, as hard links: nodes replace files and never write into them."""
    for group in (source / "etc/shared").glob("bench*"):
        shutil.copytree(group, target / "etc/shared" / group.name, copy_function=os.link)


def login(cluster: RealCluster) -> bytes:
    """The request that logs the administrator in, for :class:`Client`."""
    basic = base64.b64encode(f"admin:{cluster.password}".encode()).decode()
    return request("POST", "/security/user/authenticate?raw=true", {"Authorization": f"Basic {basic}"})


def token(cluster: RealCluster, node: RealNode) -> dict[str, str]:
    """Headers with a fresh token of the administrator."""
    with Client(node.api_port) as client:
        answer = client.ask(login(cluster))
    if answer.status != 200:
        raise RuntimeError(f"{answer.head}{answer.body!r}")
    return {"Authorization": f"Bearer {answer.body.decode()}"}


def say(text: str) -> None:
    """Progress, apart from the table."""
    print(f"... {text}", file=sys.stderr, flush=True)
