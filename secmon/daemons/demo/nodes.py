"""The demo: a master and workers on this host, each an installation of its own, supervised like any node."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from secmon.api.console import PATH as CONSOLE_PATH
from secmon.common.errors import SecmonError
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, find_account, is_root
from secmon.config.api import load_api_config
from secmon.config.auth import read_auth
from secmon.config.main import AgentPorts, ClusterSection, load_main_config
from secmon.config.remote import load_remote
from secmon.daemons.control_sockets import SupervisorClient
from secmon.daemons.daemon import StartFailed
from secmon.daemons.demo.advisories import import_demo_advisories
from secmon.daemons.demo.agents import agents_folder, demo_agents
from secmon.daemons.demo.ports import free_port, is_free
from secmon.daemons.demo.probe import Probe
from secmon.daemons.install import generate_cluster_key, install
from secmon.daemons.launch import LaunchedSupervisor, launch
from secmon.daemons.service_user import unreadable_for
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.simulator import Server

ADDRESS = "127.0.0.1"
AGENTS_ADDRESS = "0.0.0.0"
"""Agents can connect from other hosts."""
FIRST_API_PORT = 55000
FIRST_CLUSTER_PORT = 1516
FIRST_AGENT_PORT = 1514
ADMINISTRATOR = "admin"
MASTER = "master-node"
AGENTS = 12

_START_SECONDS = 120.0
_JOIN_SECONDS = 60.0
_STOP_SECONDS = 90.0


@dataclass(frozen=True)
class DemoNode:
    """One node of the demo."""

    name: str
    paths: Paths

    @property
    def port(self) -> int:
        return load_api_config(self.paths).port

    @property
    def agent_ports(self) -> tuple[int, ...]:
        """Where agents connect and enrol."""
        enrolment = read_auth(load_main_config(self.paths)).port
        return (*(block.port for block in load_remote(self.paths)), enrolment)

    @property
    def lock(self) -> SupervisorLock:
        return SupervisorLock(self.paths.root)


class Demo:
    """The nodes below ``folder``: created by the first run, used again by later ones."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int,
        agents: int = AGENTS,
        api_port: int = FIRST_API_PORT,
        cluster_port: int = FIRST_CLUSTER_PORT,
        agent_port: int = FIRST_AGENT_PORT,
    ) -> None:
        """``agents``: number of simulated agents. The search for free ports begins at the ports given."""
        names = [MASTER, *(f"worker{number}" for number in range(1, workers + 1))]
        self._folder, self._agents = folder, agents
        self._api_port, self._cluster_port, self._agent_port = api_port, cluster_port, agent_port
        self._nodes = [DemoNode(name, Paths(folder / name)) for name in names]
        self._password_file = folder / "admin-password"
        self._key_file = folder / "cluster-key"

    async def run(self, *, fresh: bool) -> int:
        """Create what is missing, start the nodes, print how to use them, stop them at Ctrl-C. Returns the status.

        Raises StartFailed for a demo that runs already and for a node that does not start.
        """
        self._refuse_second()
        if fresh:
            self._remove()
        self._make()
        if self._stays_root():
            click.echo(f"The daemons of the demo run as root: {self._stays_root()}.")
        async with self._running() as ending:
            if await self._joined(ending):
                async with demo_agents(self._folder, self._servers(), self._agents, ending):
                    click.echo(self._instructions())
                    await ending.wait()
            await ending.wait()
            click.echo("\nStopping ...")
        click.echo(f"The demo has stopped; its data stays in {self._folder}")
        return 0

    def _stays_root(self) -> str:
        """Why root does not become the service user here; empty when it does, or for another user than root."""
        if not is_root():
            return ""
        account = find_account()
        if account is None:
            return f"this host has no user {SERVICE_USER}"
        closed = unreadable_for(account, self._folder)
        return f"the user {SERVICE_USER} may not read {closed}" if closed else ""

    def _refuse_second(self) -> None:
        for node in self._existing():
            if node.lock.held():
                raise StartFailed(
                    f"the demo in {self._folder} runs already ({node.name} is process {node.lock.holder()}); "
                    f"end it with Ctrl-C in its terminal, or stop the node: secmon stop --root {node.paths.root}"
                )

    def _existing(self) -> Iterator[DemoNode]:
        """All installations in the folder, including those of an earlier run with more workers."""
        for config in sorted(self._folder.glob("*/etc/ossec.conf")):
            root = config.parent.parent
            yield DemoNode(root.name, Paths(root))

    def _remove(self) -> None:
        """Remove what a demo creates, and nothing else in the folder."""
        for node in list(self._existing()):
            if node.name == MASTER or node.name.removeprefix("worker").isdecimal():
                shutil.rmtree(node.paths.root)
        agents_folder(self._folder).remove()
        self._password_file.unlink(missing_ok=True)
        self._key_file.unlink(missing_ok=True)

    # Making the installations

    def _make(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for node in self._existing():
            for address, port in ((ADDRESS, node.port), *((AGENTS_ADDRESS, port) for port in node.agent_ports)):
                if not is_free(address, port):
                    raise StartFailed(
                        f"port {port} of {node.name} is in use by another program; end that program, "
                        "or let the demo choose other ports: secmon demo --fresh"
                    )
        missing = [node for node in self._nodes if not node.paths.main_config.exists()]
        if not missing:
            return
        with click.progressbar(missing, label="Making the nodes", item_show_func=_name) as nodes:
            taken = {port for node in self._existing() for port in (node.port, *node.agent_ports)}
            for node in nodes:
                self._install(node, taken)
        moved = [node for number, node in enumerate(self._nodes) if node.port != self._api_port + number]
        for node in moved:
            click.echo(f"Ports in use were passed over: {node.name} is on port {node.port}.")

    def _install(self, node: DemoNode, taken: set[int]) -> None:
        port = free_port(ADDRESS, self._api_port, taken)
        taken.add(port)
        options = {} if node.name == MASTER else {"clusterd.peer_port": 0}
        api: dict[str, object] = {"host": ADDRESS, "port": port}
        if self._stays_root():
            api["drop_privileges"] = False
        cluster = self._cluster(node.name)
        taken.update((cluster.port, cluster.port + 1))
        first = free_port(AGENTS_ADDRESS, self._agent_port, taken, count=2)
        taken.update((first, first + 1))
        ports = AgentPorts(connections=first, enrolment=first + 1)
        credentials = install(node.paths, cluster=cluster, api=api, options=options, agent_ports=ports)
        if credentials is not None:
            write_file(self._password_file, f"{credentials.passwords[ADMINISTRATOR]}\n".encode(), 0o600)
            import_demo_advisories(node.paths)

    def _cluster(self, name: str) -> ClusterSection:
        master = self._nodes[0].paths
        if name == MASTER:
            port = free_port(ADDRESS, self._cluster_port, set(), count=2)  # the peers' port and the enrolment port
        else:
            port = load_main_config(master).cluster.port
        return ClusterSection(
            name="demo",
            node_name=name,
            node_type="master" if name == MASTER else "worker",
            key=self._key(),
            port=port,
            bind_addr=ADDRESS,
            nodes=[ADDRESS],
        )

    def _key(self) -> str:
        if not self._key_file.exists():
            write_file(self._key_file, generate_cluster_key().encode(), 0o640)
        return self._key_file.read_text().strip()

    # Running them

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[asyncio.Event]:
        """Start all nodes, yield the event that Ctrl-C sets, and stop the nodes in any case."""
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        launched = [launch(node.paths, bound=True) for node in self._nodes]
        try:
            await self._started(launched, ending)
            yield ending
        finally:
            await asyncio.gather(*(self._stop(node) for node in self._nodes))
            for each in launched:
                each.channel.close()  # ends a supervisor that could not be asked
            for each in launched:
                await asyncio.to_thread(_reap, each)

    async def _started(self, launched: list[LaunchedSupervisor], ending: asyncio.Event) -> None:
        async def ready(node: DemoNode, each: LaunchedSupervisor) -> None:
            try:
                await each.ready(_START_SECONDS)
            except StartFailed as error:
                raise StartFailed(f"{node.name}: {error}") from error

        tasks = [asyncio.create_task(ready(*pair)) for pair in zip(self._nodes, launched, strict=True)]
        stopped = asyncio.create_task(ending.wait())
        pending: set[asyncio.Task[None]] = set(tasks)
        try:
            with click.progressbar(length=len(tasks), label="Starting the nodes") as bar:
                while pending and not ending.is_set():
                    done, _ = await asyncio.wait([*pending, stopped], return_when=asyncio.FIRST_COMPLETED)
                    finished = pending & done
                    pending -= finished
                    bar.update(len(finished))
                    for task in finished:
                        await task
        finally:
            for leftover in (*tasks, stopped):
                leftover.cancel()
            await asyncio.gather(*tasks, stopped, return_exceptions=True)

    async def _joined(self, ending: asyncio.Event) -> bool:
        """Wait until every API lists all nodes; ``False`` when ``ending`` is set before."""
        probe = Probe(self._urls(), ADMINISTRATOR, self._password())
        seen = 0
        with click.progressbar(length=len(self._nodes), label="Joining the cluster") as bar:
            try:
                async with asyncio.timeout(_JOIN_SECONDS):
                    while seen < len(self._nodes):
                        now = await asyncio.to_thread(probe.complete)
                        bar.update(now - seen)
                        seen = now
                        with suppress(TimeoutError):
                            await asyncio.wait_for(ending.wait(), 0.25)
                            return False
            except TimeoutError:
                raise StartFailed(
                    f"{seen} of {len(self._nodes)} nodes are in the cluster after {_JOIN_SECONDS:g} s; "
                    f"see {self._nodes[0].paths.logs}/cluster.log ({probe.trouble or 'no other error'})"
                ) from None
        return True

    async def _stop(self, node: DemoNode) -> None:
        """Stop the node through its own supervisor, which may not be the one that the demo started."""
        with suppress(SecmonError):
            await SupervisorClient(node.paths).send("stop")
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while node.lock.held():  # noqa: ASYNC110 - another process's lock cannot set an event
                    await asyncio.sleep(0.05)

    # Instructions

    def _password(self) -> str:
        return self._password_file.read_text().strip()

    def _urls(self) -> list[str]:
        return [f"https://{ADDRESS}:{node.port}" for node in self._nodes]

    def _servers(self) -> list[Server]:
        """The servers that agents connect to."""
        return [Server(ADDRESS, node.agent_ports[0], node.agent_ports[-1]) for node in self._nodes]

    def _instructions(self) -> str:
        urls = self._urls()
        first, second, third = urls[0], urls[min(1, len(urls) - 1)], urls[min(2, len(urls) - 1)]
        command, last = _short(Path(sys.argv[0])), _short(self._nodes[-1].paths.root)
        login = f"{first}/security/user/authenticate?raw=true"
        lines = [
            "",
            "The cluster runs. Any node gives the same answer:",
            *(f"  {node.name:12} {url}" for node, url in zip(self._nodes, urls, strict=True)),
            f"User {ADMINISTRATOR}, password {self._password()}",
            "",
            "To look around, open the console of a node in a browser, and accept its self-signed certificate:",
            f"  {first}{CONSOLE_PATH}",
            "",
            "Paste these into another terminal: log in, list the nodes, ask all of them at once.",
            f'  TOKEN=$(curl -k -s -u {ADMINISTRATOR}:{self._password()} -X POST "{login}")',
            f'  curl -k -s -H "Authorization: Bearer $TOKEN" "{third}/cluster/nodes?pretty=true"',
            f'  curl -k -s -H "Authorization: Bearer $TOKEN" "{second}/cluster/configuration/validation?pretty=true"',
            *self._about_agents(second),
            "",
            "Take a node away and bring it back" + (" (its agents go to the others):" if self._agents else ":"),
            f"  {command} stop --root {last}",
            f"  {command} start --root {last} --daemonize",
            "",
            "Ctrl-C stops all nodes.",
        ]
        return "\n".join(lines)

    def _about_agents(self, url: str) -> list[str]:
        if not self._agents:
            return []
        ask = f'  curl -k -s -H "Authorization: Bearer $TOKEN" "{url}'
        return [
            "",
            f"{self._agents} simulated agents are spread over the nodes and send events (--agents 0: none). See them:",
            f'{ask}/agents?select=id,name,status,node_name,version&pretty=true"',
            "",
            "Their events raise alerts. Find attacks of the last hour on all nodes, and who is attacked most:",
            f'{ask}/alerts?since=now-1h&level=5-15&select=timestamp,agent.name,rule.description,data.srcip&limit=5&pretty=true"',
            f'{ask}/alerts/top?field=agent.name&rule_groups=authentication_failed,authentication_failures&pretty=true"',
            "",
            "They report on their hosts too: installed packages, changed files, and how well a host is configured.",
            f'{ask}/syscollector/001/packages?select=name,version&limit=5&pretty=true"',
            f'{ask}/syscheck/001?summary=true&sort=-date&limit=5&pretty=true"',
            f'{ask}/sca/001?select=name,score,pass,fail&pretty=true"',
            "",
            "What they have installed is compared with advisories, here with made-up ones. Which hosts are vulnerable?",
            f'{ask}/vulnerability/001?select=cve,name,version,severity,condition&pretty=true"',
        ]


def _short(path: Path) -> str:
    """``path`` relative to the current folder, if it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _reap(launched: LaunchedSupervisor) -> None:
    """Wait for the end of a supervisor that was asked to stop; kill it after the time limit."""
    try:
        launched.process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        launched.process.kill()
        launched.process.wait()


def _name(node: DemoNode | None) -> str:
    return node.name if node else ""
