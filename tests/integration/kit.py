"""Real clusters: installations in temporary folders, each with its supervisor and daemons as processes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import httpx
import psutil

from secmon.agents.groups.folders import AGENT_CONF_TEXT
from secmon.common.files.categories import excluded
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts, ClusterSection
from secmon.daemons.install import install
from tests.folders import files_below, short_root
from tests.waiting import LIMIT_SECONDS, wait_until

KEY = "0123456789abcdefghijklmnopqrstuv"
QUICK = {
    "analysisd.engines": 1,
    "clusterd.heartbeat_ms": 200,
    "clusterd.heartbeat_misses": 15,
    "clusterd.reconnect_min_ms": 50,
    "clusterd.reconnect_max_ms": 400,
    "clusterd.hold_ms": 500,
    "clusterd.anti_entropy": 3,
    "clusterd.security_lease": 15,
    "daemons.stop_timeout": 10,
}
"""Internal options of the nodes under test: the same machinery, faster."""
ALL_AGENTS = "agents_list=all&status=all&older_than=0s"
_INSTALLED = {
    "shared/default": {"agent.conf", "merged.mg"},
    "rules": set[str](),
    "decoders": set[str](),
    "advisories": set[str](),
}
"""Files of the master's configuration that no test has made."""


def free_port() -> int:
    """A port without a listener, below the kernel's ephemeral range, so that no outgoing connection takes it.

    It is ours until this process ends: another one that runs clusters at the same time does not get it, though nothing
    may listen there yet.
    """
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0secmon-test-port-{port}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise AssertionError("no free port")


_claims: list[socket.socket] = []


@dataclass
class RealNode:
    """One installation and its processes. ``prefix`` runs them elsewhere, such as in a network namespace."""

    paths: Paths
    name: str
    address: str
    api_port: int
    prefix: Sequence[str] = ()
    password: str | None = None
    single_process: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, *, wait: bool = True) -> "RealNode":
        """Start the supervisor; with ``wait`` until the API answers."""
        # A killed test run takes its nodes along.
        command = ["setpriv", "--pdeathsig", "TERM", *self.prefix, sys.executable, "-m", "secmon.cli"]
        command += ["start", "--root", str(self.paths.root)]
        command += ["--single-process"] if self.single_process else []
        log = (self.paths.logs / "test-output.log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            wait_until(self.answers, what=f"API of {self.name}")
        return self

    def stop(self) -> None:
        """Stop cleanly and wait for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(LIMIT_SECONDS)
        self.process = None

    def kill(self) -> None:
        """SIGKILL the supervisor; its daemons die with it."""
        pids = [self.pid(name) for name in ("secmon-apid", "secmon-clusterd")]
        assert self.process is not None
        self.process.kill()
        self.process.wait(LIMIT_SECONDS)
        self.process = None
        wait_until(lambda: not any(pid and Path(f"/proc/{pid}").exists() for pid in pids), what="daemons dead")

    def kill_everything(self) -> None:
        """SIGKILL all processes of the node at once, as when its host is lost."""
        assert self.process is not None
        supervisor = psutil.Process(self.process.pid)
        supervisor.suspend()  # it would log the deaths of the others
        for process in [*supervisor.children(recursive=True), supervisor]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(LIMIT_SECONDS)
        self.process = None

    def kill_all(self) -> None:
        """SIGKILL a node that runs in a single process."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(LIMIT_SECONDS)
        self.process = None

    def pid(self, daemon: str) -> int | None:
        """The living process of ``daemon``."""
        for file in self.paths.run.glob(f"{daemon}-*.pid"):
            pid = int(file.stem.rsplit("-", 1)[1])
            if Path(f"/proc/{pid}").exists():
                return pid
        return None

    def signal(self, daemon: str, number: int) -> None:
        """Send a signal to ``daemon``."""
        pid = self.pid(daemon)
        assert pid is not None
        os.kill(pid, number)

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    def answers(self) -> bool:
        """Whether the API answers at all."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.output()}")
        try:
            return httpx.get(self.url, verify=False, timeout=2).status_code in (401, 503)
        except httpx.HTTPError:
            return False

    def output(self) -> str:
        """What the processes printed."""
        return (self.paths.logs / "test-output.log").read_text(errors="replace")[-3000:]

    def request(
        self, method: str, path: str, *, token: str | None = None, timeout: float = LIMIT_SECONDS, **options: Any
    ) -> httpx.Response:
        """One request on a connection of its own."""
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **options.pop("headers", {})}
        with httpx.Client(verify=False, timeout=timeout) as client:
            return client.request(method, self.url + path, headers=headers, **options)

    def files(self, folder: str = "etc") -> dict[str, str]:
        """Content hashes of the replicated files under ``folder``."""
        found = {}
        for sub in ("shared", "rules", "decoders", "lists"):
            base = self.paths.root / folder / sub
            for file, data in files_below(base):
                if not excluded(file.name):
                    found[str(file.relative_to(self.paths.root))] = blake2b(data).hexdigest()
        return found


@dataclass
class RealCluster:
    """A master and its workers."""

    master: RealNode
    workers: list[RealNode]
    password: str
    folder: Path
    _tokens: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> list[RealNode]:
        return [self.master, *self.workers]

    def login(self, node: RealNode | None = None) -> str:
        """A fresh token of the administrator."""
        answer = (node or self.master).request(
            "POST", "/security/user/authenticate?raw=true", auth=("admin", self.password)
        )
        assert answer.status_code == 200, answer.text
        return answer.text

    def call(self, node: RealNode, path: str, *, method: str = "GET", **options: Any) -> dict[str, Any]:
        """The JSON of an answer with status 200; the token is that of the last call while it is valid."""
        known = self._tokens.get(node.name)
        answer = node.request(method, path, token=known, **options) if known else None
        if answer is None or answer.status_code == 401:
            self._tokens[node.name] = self.login(node)
            answer = node.request(method, path, token=self._tokens[node.name], **options)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def members(self, node: RealNode | None = None) -> set[str]:
        """Names of the connected nodes, as ``node`` sees them."""
        body = self.call(node or self.master, "/cluster/nodes")
        return {item["name"] for item in body["data"]["affected_items"]}

    def whole(self) -> bool:
        """Whether every node answers and the master sees all."""
        try:
            return all(self.members(node) == {one.name for one in self.nodes} for node in self.nodes)
        except (httpx.HTTPError, AssertionError):
            return False

    def converged(self) -> bool:
        """Whether every worker holds exactly the master's files."""
        reference = self.master.files()
        return all(worker.files() == reference for worker in self.workers)

    def analysed(self) -> bool:
        """Whether the analysis of every node answers, which starts last: it validates the configuration."""
        try:
            return "dapi_errors" not in self.call(self.master, "/cluster/configuration/validation")
        except (httpx.HTTPError, AssertionError):
            return False

    def bring_back(self) -> None:
        """Start the nodes that do not run, and wait until all is as it was at first."""
        for node in self.nodes:
            if node.process is None:
                node.start(wait=False)
        self.wait_whole()
        self.wait_analysed()
        self.wait_converged()

    def tidy(self) -> None:
        """Remove agents, groups, settings and files that tests have made: what is left is as it was installed."""
        self.call(self.master, "/security/config", method="DELETE")
        self.call(self.master, f"/agents?{ALL_AGENTS}", method="DELETE")
        self.call(self.master, "/groups?groups_list=all", method="DELETE")
        for name, kept in _INSTALLED.items():
            folder = self.master.paths.etc / name
            for file in folder.iterdir():
                if file.is_file() and file.name not in kept and not excluded(file.name):
                    file.unlink()
        (self.master.paths.shared / "default" / "agent.conf").write_text(AGENT_CONF_TEXT)
        self.wait_converged()

    def wait_whole(self, seconds: float = LIMIT_SECONDS) -> None:
        wait_until(self.whole, seconds=seconds, what="all nodes joined and answering")

    def wait_analysed(self) -> None:
        wait_until(self.analysed, what="the analysis of every node answers")

    def wait_converged(self, seconds: float = LIMIT_SECONDS) -> None:
        wait_until(self.converged, seconds=seconds, what="equal files on all nodes")


def make_node(
    folder: Path,
    name: str,
    *,
    master: str,
    cluster_port: int,
    api_port: int,
    role: str = "worker",
    address: str = "127.0.0.1",
    prefix: Sequence[str] = (),
    options: Mapping[str, int] | None = None,
    api: Mapping[str, object] | None = None,
    key: str = KEY,
    cluster_name: str = "test",
) -> RealNode:
    """Install a node below ``folder``."""
    paths = Paths(folder / name)
    section = ClusterSection(
        name=cluster_name,
        node_name=name,
        node_type="master" if role == "master" else "worker",
        key=key,
        port=cluster_port,
        bind_addr=address,
        nodes=[master],
    )
    settings: dict[str, object] = {
        "host": address,
        "port": api_port,
        "drop_privileges": False,
        "access.max_request_per_minute": 1_000_000,
        **(api or {}),
    }
    # In a network namespace of its own a node has the usual ports.
    ports = None if prefix else AgentPorts(connections=free_port(), enrolment=free_port())
    credentials = install(paths, cluster=section, api=settings, agent_ports=ports)
    chosen = {**QUICK, **({"clusterd.peer_port": 0} if role == "worker" and address == "127.0.0.1" else {})}
    lines = [f"{option}={value}" for option, value in {**chosen, **(options or {})}.items()]
    paths.local_internal_options.write_text("\n".join(lines) + "\n")
    password = credentials.passwords["admin"] if credentials else None
    return RealNode(paths, name, address, api_port, prefix, password)


@contextmanager
def cluster(
    workers: int = 2,
    *,
    options: Mapping[str, int] | None = None,
    api: Mapping[str, object] | None = None,
    single_process: bool = False,
    before_start: Callable[[RealCluster], None] = lambda _: None,
) -> Iterator[RealCluster]:
    """A running cluster on this machine; everything is stopped and removed at the end."""
    # A short folder of its own: unix sockets below it must fit into 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sm-", dir=short_root()))
    port = free_port()
    free_port()  # the enrolment port next to it
    patient = {"intervals.request_timeout": 60, **(api or {})}  # of hosts that have other work too
    common: dict[str, Any] = {"master": "127.0.0.1", "cluster_port": port, "options": options, "api": patient}
    enrol = {"clusterd.enrol_port": free_port()}
    common["options"] = {**enrol, **(options or {})}
    master = make_node(folder, "master-node", role="master", api_port=free_port(), **common)
    assert master.password is not None
    nodes = [make_node(folder, f"worker{n}", api_port=free_port(), **common) for n in range(1, workers + 1)]
    made = RealCluster(master, nodes, master.password, folder)
    for node in made.nodes:
        node.single_process = single_process
    try:
        before_start(made)
        master.start()
        for node in nodes:
            node.start(wait=False)
        try:
            made.wait_whole(80 + 6 * workers)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(node.output() for node in made.nodes)) from None
        yield made
    finally:
        for node in made.nodes:
            if node.process is not None:
                node.process.terminate()
        for node in made.nodes:
            node.stop()
        shutil.rmtree(folder, ignore_errors=True)
