"""secmon-remoted: the agents' connections of this node."""

import asyncio
import errno
import os
import socket
from collections.abc import Mapping
from typing import Any

from secmon.agentlink.control import Identity
from secmon.agentlink.ports import Ports
from secmon.agentlink.server import AgentLinkServer
from secmon.agentlink.settings import LinkSettings, active_config, link_settings
from secmon.agentlink.shared import Assigner
from secmon.agents.groups.first_groups import assign_first_groups
from secmon.agents.registry.store import AgentStore
from secmon.cluster.node import Node
from secmon.common.accept.listening import allow_files
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.privileges import as_root
from secmon.config.remote import load_remote
from secmon.daemons.daemon import Context
from secmon.daemons.daemon_host import tend
from secmon.daemons.master_client import MasterClient
from secmon.daemons.node_builder import Installation, open_node, read_installation

OPERATION = "PUT /internal/agents/first-groups"


def build(context: Context) -> "RemoteDaemon":
    """The daemon for the installation in ``context.paths``, with its ports bound: one below 1024 needs root.

    Raises ConfigError, 2010.
    """
    installation = read_installation(context.paths, hands_in=True)
    settings = link_settings(load_remote(context.paths), installation.main, installation.options)
    try:
        with as_root():
            allow_files(settings.files)
            ports = Ports(settings)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        option = f"change the ports of the remote sections in {context.paths.main_config}"
        raise SecmonError(2010, f"{error.filename}: {os.strerror(error.errno)}; {option}") from error
    return RemoteDaemon(installation, settings, ports)


class RemoteDaemon:
    """The link, and on a worker the client of the master, which assigns groups."""

    name = "secmon-remoted"

    def __init__(self, installation: Installation, settings: LinkSettings, ports: Ports) -> None:
        self._installation = installation
        self._settings = settings
        self._ports = ports
        self._node: Node | None = None
        self._store: AgentStore | None = None
        self._master: MasterClient | None = None
        self.server: AgentLinkServer | None = None
        self.tasks = Background()

    async def start(self) -> None:
        """Serve agents. Raises the errors of a start (``daemon.start_error``)."""
        clock = SystemClock()
        node = self._node = open_node(self._installation, clock=clock)
        # Agents report their states again within seconds: after a loss of power the last ones may be missing.
        self._store = AgentStore(node.paths.agents_db, durable=False)
        server = self.server = AgentLinkServer(
            self._settings,
            self._ports,
            paths=node.paths,
            clock=clock,
            store=self._store,
            identity=Identity(socket.gethostname(), node.name if node.clustered else ""),
            node=node.name,
            tasks=self.tasks,
            assigner=self._assigner_on_master(node) if node.role == "master" else self._assigner_on_worker(node),
        )
        await server.start()
        self.tasks.keep("local socket", lambda: tend(server.local.tend))

    def _assigner_on_master(self, node: Node) -> Assigner:
        guess = bool(node.options.get("remoted.guess_agent_group"))

        async def assign(wanted: Mapping[int, str]) -> Mapping[int, str]:
            return await asyncio.to_thread(assign_first_groups, node.agents, node.paths, wanted, guess=guess)

        return assign

    def _assigner_on_worker(self, node: Node) -> Assigner:
        """Through the cluster daemon of this node, which forwards the call to the master."""
        master = self._master = MasterClient(node, self.name)

        async def assign(wanted: Mapping[int, str]) -> Mapping[int, str]:
            groups = await master.call(OPERATION, {"agents": list(wanted), "sums": list(wanted.values())})
            return {int(number): joined for number, joined in groups.items()} if isinstance(groups, dict) else {}

        return assign

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        await self.tasks.stop("local socket")
        if self.server is not None:
            await self.server.stop()
        self._ports.close()
        if self._master is not None:
            await self._master.close()
        if self._node is not None:
            self._node.security.close()
            self._node.agents.close()
        if self._store is not None:
            self._store.close()

    async def reload(self) -> None:
        """Does nothing: ports and limits change at a restart; keys, groups and shared files are always followed."""

    def counters(self) -> Mapping[str, Any]:
        return self.server.counters() if self.server is not None else {}

    def active_config(self) -> Mapping[str, Any]:
        return active_config(self._settings, self._installation.main, self._installation.options)
