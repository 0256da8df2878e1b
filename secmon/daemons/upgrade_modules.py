"""The modules of ``secmon-modulesd`` that upgrade agents."""

from collections.abc import Mapping
from typing import Any, Protocol

from secmon.agentlink.upgrade.expiry import TaskExpiry
from secmon.agentlink.upgrade.jobs import Upgrades
from secmon.agentlink.upgrade.packages import Packages
from secmon.agentlink.upgrade.reports import ReportListener
from secmon.agentlink.upgrade.task_source import MasterTaskSource, RegistryTaskSource, TaskSource
from secmon.agents.link.client import LinkClient
from secmon.agents.wakeups import WakeupListener
from secmon.cluster.node import Node
from secmon.config.upgrades import read_tasks, read_upgrades
from secmon.daemons.master_client import MasterClient


class Module(Protocol):
    """A task of ``secmon-modulesd``: it ends only when it fails or is cancelled."""

    async def run(self) -> None: ...


def upgrade_modules(node: Node, master: MasterClient) -> Mapping[str, Module]:
    """Upgrades of the node's agents; on the master also the expiry of all tasks."""
    settings = read_upgrades(node.main_config)
    link = LinkClient(node.paths.agent_link_socket)
    task_source: TaskSource = MasterTaskSource(master.call)
    modules: dict[str, Module] = {}
    if node.role == "master":
        task_source = RegistryTaskSource(node.tasks, node.name, node.clock)
        modules["tasks"] = TaskExpiry(
            node.tasks, read_tasks(node.main_config), clock=node.clock, counters=node.counters
        )
    packages = Packages(node.paths, node.clock, configured=settings.repository)
    modules["upgrades"] = Upgrades(
        task_source, link, packages, node.agents, settings,
        wakeups=WakeupListener(node.paths.upgrades_socket), clock=node.clock, counters=node.counters,
    )  # fmt: skip
    modules["reports of upgrades"] = ReportListener(task_source, link, counters=node.counters)
    return modules


def shown_modules(node: Node) -> list[dict[str, Any]]:
    """Their active configuration (manager.md 7.4)."""
    tasks = {"task-manager": {"enabled": "yes"}} if node.role == "master" else {}
    return [{"agent-upgrade": read_upgrades(node.main_config).active_configuration()}, *([tasks] if tasks else [])]
