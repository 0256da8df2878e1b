"""Active responses to alerts on agents of other nodes: nodes request them of the master (agent-link.md 9)."""

import logging
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import select

from secmon.agents.names import MAX_ID
from secmon.agents.registry.schema import agents
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.config.responses import ActiveResponse, read_responses
from secmon.operations.agents.commands import RESPOND_OWN, CommandName
from secmon.operations.agents.listing import read_agents
from secmon.operations.agents.node_requests import LocatedAgent, NodeRequest, call_shares
from secmon.operations.internal import INTERNAL

log = logging.getLogger("secmon.responses")


class Respond(Struct, frozen=True, kw_only=True):
    """A response that the master has in its configuration too: for all agents, or for the one that it names there."""

    command: CommandName
    agent: Annotated[int, Meta(ge=0, le=MAX_ID)] = 0
    alert: dict[str, Any] = {}


@operation(
    "PUT", "/internal/responses", params=Respond, place=Place.MASTER, open_to_all=True, exempt=True, catalogue=INTERNAL,
)  # fmt: skip
async def respond_on_other_nodes(ctx: Context, params: Respond) -> Plain:
    """Run a response on agents that are not connected to the calling node; how many it has reached, and how many not.

    A worker is not trusted with commands: it can only start what the master's own configuration has. Raises 1652.
    """
    response = _configured(ctx, params)
    query = select(agents.c.id, agents.c.node_name, agents.c.connection_status, agents.c.version)
    query = query.where(agents.c.connection_status == "active", agents.c.node_name != ctx.origin)
    if response.location == "defined-agent":
        query = query.where(agents.c.id == response.agent)
    located = await read_agents(ctx, lambda store: [LocatedAgent(*row) for row in store.execute(query)])
    errand = NodeRequest(
        RESPOND_OWN,
        {"command": response.name, "arguments": list(response.command.arguments), "alert": params.alert, "ask": False},
    )
    outcomes = await call_shares(ctx, errand, located)
    failures = [failure for one in outcomes for failure in one.failures]
    for failure in failures:
        reason = SecmonError(failure.code, failure.extra).message
        log.warning("The response %s has not reached the agents %s: %s", response.name, failure.ids, reason)
    sent, failed = sum(len(one.items) for one in outcomes), sum(len(one.ids) for one in failures)
    return Plain(data={"sent": sent, "failed": failed})


def _configured(ctx: Context, params: Respond) -> ActiveResponse:
    for one in read_responses(ctx.node.main_config):
        fits = one.location == "all" or (one.location == "defined-agent" and one.agent == params.agent)
        if one.name == params.command and fits:
            return one
    raise SecmonError(1652, params.command)
