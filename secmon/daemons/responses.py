"""The modules of ``secmon-modulesd`` that answer alerts, assembled for a node."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import select

from secmon.agents.link.client import LinkClient
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.alerts.silences import Silences
from secmon.cluster.node import Node
from secmon.config.responses import ActiveResponse, allow_list, read_responses, repeated_offenders
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.master_client import MasterClient
from secmon.daemons.upgrade_modules import Module
from secmon.outputs.alert import Alert
from secmon.outputs.responses.agent_responses import AgentResponses
from secmon.outputs.responses.allow_list import AllowList
from secmon.outputs.responses.pending_undo import PendingUndo
from secmon.outputs.responses.response_reader import ResponseReader
from secmon.outputs.responses.server_responses import ServerResponses

log = logging.getLogger("secmon.responses")


class Task:
    """Work without an end, as a module."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work

    async def run(self) -> None:
        await self._work()


async def response_modules(node: Node, states: AgentStore, master: MasterClient) -> Mapping[str, Module]:
    """None without active responses, apart from what earlier ones have left to be undone. Raises OSError."""
    await asyncio.to_thread(restore_folders, node.paths, ("queue/responses", "queue/outputs", "queue/outputs/undo"))
    pending = await asyncio.to_thread(PendingUndo, node.paths.outputs / "undo")
    server = ServerResponses(
        node.paths.root,
        pending,
        offences=repeated_offenders(node.main_config),
        node=node.name,
        clock=node.clock,
        counters=node.counters,
    )
    modules: dict[str, Module] = {"undone responses": Task(server.undo)} if len(pending) else {}
    if not read_responses(node.main_config):
        return modules
    link = LinkClient(node.paths.agent_link_socket)
    at_agents = AgentResponses(
        link,
        partial(_versions, states, node.name if node.clustered else None),
        partial(_elsewhere, master) if node.clustered else None,
        node=node.name,
        clock=node.clock,
        counters=node.counters,
    )
    make = partial(
        ResponseReader,
        folder=node.paths.responses,
        allowed=AllowList(allow_list(node.main_config)),
        silences=Silences(node.paths.security_db),
        oldest=timedelta(seconds=node.options.get("modulesd.response_max_age")),
        clock=node.clock,
        counters=node.counters,
    )
    return {
        "undone responses": Task(server.undo),
        "responses of agents": make("agents", answer=at_agents.answer, wants=at_agents.wants),
        "responses of this server": make("server", answer=server.answer, wants=server.wants),
    }


def _versions(states: AgentStore, node: str | None, numbers: Sequence[int] | None) -> Mapping[int, str | None]:
    """Versions of the active agents of this node, or of those with ``numbers``, wherever they are."""
    query = select(agents.c.id, agents.c.version)
    if numbers is not None:
        query = query.where(agents.c.id.in_(numbers))
    else:
        query = query.where(agents.c.connection_status == "active")
        query = query if node is None else query.where(agents.c.node_name == node)
    with states.read() as connection:
        return dict(map(tuple, connection.execute(query)))


async def _elsewhere(master: MasterClient, response: ActiveResponse, alert: Alert) -> int:
    """Through the master, which knows the nodes of all agents; how many it has not reached. Raises SecmonError."""
    params = {"command": response.name, "agent": response.agent, "alert": dict(alert.fields)}
    data = await master.call("PUT /internal/responses", params)
    failed = data.get("failed", 0) if isinstance(data, dict) else 0  # a master of an earlier release does not say it
    return int(failed)
