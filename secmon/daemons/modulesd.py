"""secmon-modulesd: the background work of a node.

The key file for existing tools, upgrades of the node's agents, keys of refused agents, active responses; on the master
and without a cluster also merged files of groups, downloads for groups, lists with feeds, silent agents and sources,
expired tasks, and the check for newer versions.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.groups.merged_files.active_responses import write_active_responses
from secmon.agents.groups.merged_files.downloads import GroupFileDownloads
from secmon.agents.groups.merged_files.task import MergedFileTask
from secmon.agents.link.client import LinkClient
from secmon.agents.registry.key_file import MasterKeyFile, WorkerKeyFile
from secmon.agents.registry.store import AgentStore
from secmon.agents.silent_agents import SilenceMonitor, SilenceSettings
from secmon.agents.sources.source_watch import SourceWatch
from secmon.cluster.node import Node
from secmon.cluster.updates.check import UpdateService, read_updates
from secmon.common.background import Background
from secmon.common.errors import os_text
from secmon.config.silent_sources import SilentSourceSettings
from secmon.daemons.active_configuration import substitute_sections
from secmon.daemons.audit_anchors import AuditAnchors
from secmon.daemons.daemon import Context
from secmon.daemons.key_requests import key_request_modules
from secmon.daemons.master_client import MasterClient
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.responses import response_modules
from secmon.daemons.source_reports import gather_sources
from secmon.daemons.update_check import UpdateCheckTask
from secmon.daemons.upgrade_modules import Module, shown_modules, upgrade_modules
from secmon.knowledge.lists.feed_task import FeedSchedule
from secmon.knowledge.lists.renewal import ListRenewal

log = logging.getLogger("secmon.modulesd")

KEYS_SECONDS = 1.0
"""Between two checks of the key file."""


def build(context: Context) -> "ModulesDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return ModulesDaemon(open_node(read_installation(context.paths)))


class ModulesDaemon:
    """The modules of a node by name. They share only the node."""

    name = "secmon-modulesd"

    def __init__(self, node: Node) -> None:
        self.node = node
        # Agents report their states again within seconds, so the last ones may be lost with the power.
        self._states = AgentStore(node.paths.agents_db, durable=False)
        self._master = MasterClient(node, self.name)
        self.tasks = Background()

    async def start(self) -> None:
        """Start the modules."""
        modules = dict(await (self._master_modules() if self.node.role == "master" else self._worker_modules()))
        modules |= upgrade_modules(self.node, self._master)
        modules |= key_request_modules(self.node, self._master, self.tasks)
        modules |= await response_modules(self.node, self._states, self._master)
        for name, each in modules.items():
            self.tasks.keep(name, each.run)

    async def _master_modules(self) -> Mapping[str, Module]:
        node, option = self.node, self.node.options.get
        merged_files = MergedFileTask(
            node.paths,
            node.agents,
            node.main_config,
            clock=node.clock,
            counters=node.counters,
            reload_seconds=option("remoted.shared_reload"),
            merging=bool(option("remoted.merge_shared")),
        )
        remote = GroupFileDownloads(
            node.paths, node.agents, merged_files, counters=node.counters, poll_seconds=option("remoted.shared_reload")
        )
        await remote.prepare()
        monitor = SilenceMonitor(
            self._states,
            node.agents,
            SilenceSettings.of(node.main_config, node.options),
            sink=LinkClient(node.paths.agent_link_socket),
            clock=node.clock,
            counters=node.counters,
        )
        modules: dict[str, Module] = {
            "groups": merged_files,
            "files of groups": remote,
            "lists": FeedSchedule(node.paths, ListRenewal(node.paths, node.clock, node.counters), node.counters),
            "agents": monitor,
            "key file": KeyFileTask(node),
            "audit anchors": AuditAnchors(node.security, node.clock),
        }
        modules["silent sources"] = SourceWatch(
            node.agents,
            SilentSourceSettings.of(node.main_config),
            gather_sources(node, self._master),
            sink=LinkClient(node.paths.agent_link_socket),
            paths=node.paths,
            clock=node.clock,
            counters=node.counters,
        )
        updates = UpdateService(node.paths, read_updates(node.main_config), clock=node.clock, counters=node.counters)
        if updates.settings.enabled and updates.settings.url:
            modules["newer versions"] = UpdateCheckTask(updates, node.clock)
        return modules

    async def _worker_modules(self) -> Mapping[str, Module]:
        # Of this node's configuration, as its agents' commands are checked here. A master's follows groups too.
        await asyncio.to_thread(write_active_responses, self.node.paths, self.node.main_config)
        return {"key file": KeyFileTask(self.node)}

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        await self.tasks.stop()
        await self._master.close()
        self.node.tasks.close()
        self.node.security.close()
        self.node.agents.close()
        self._states.close()

    async def reload(self) -> None:
        """The configuration is read at start; files of groups, ``files.yml`` and keys are followed all the time."""

    def counters(self) -> Mapping[str, Any]:
        return self.node.counters.snapshot()

    def active_config(self) -> Mapping[str, Any]:
        return {"wmodules": shown_modules(self.node), **substitute_sections(self.node)}


class KeyFileTask:
    """Synchronises the key file and the registry. Failures are retried, and logged once."""

    def __init__(self, node: Node) -> None:
        self._node = node
        kind = MasterKeyFile if node.role == "master" else WorkerKeyFile
        self._keys: MasterKeyFile | WorkerKeyFile = kind(node.agents, node.paths, node.clock)
        self._failure = ""

    async def run(self) -> None:
        while True:
            await self.poll()
            await asyncio.sleep(KEYS_SECONDS)

    async def poll(self) -> None:
        """Look once."""
        try:
            taken = await asyncio.to_thread(self._keys.poll)
        except (OSError, SQLAlchemyError) as error:
            text = os_text(error) if isinstance(error, OSError) else str(error)
            if text != self._failure:
                log.error("The key file cannot be kept up to date: %s", text)
            self._failure = text
            return
        self._failure = ""
        if taken is not None and str(taken):
            self._node.counters.add("keys.taken_over")
