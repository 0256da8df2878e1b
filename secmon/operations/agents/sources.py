"""``GET /agents/silent-sources``, and how the master asks the nodes where the events of their agents come from."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, structs

from secmon.agents.names import padded
from secmon.agents.sources.reports import SourceQuestion, SourceReport
from secmon.agents.sources.silent_list import SilentSource, read_silent
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.parameters import Listing
from secmon.common import query
from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.query import Fields, Sort
from secmon.operations.agents.listing import READ_ANY, scope_of
from secmon.operations.internal import INTERNAL

log = logging.getLogger("secmon.clusterd.sources")

OWN = "PUT /internal/own-sources"
READ = Messages(all="The silent sources were read", none="No source is silent")


class SourceAgent(Struct):
    """Id and name of an agent."""

    id: str
    name: str


class Silent(Struct):
    """A source that fell silent; ``location`` is empty for the agent as a whole."""

    agent: SourceAgent
    location: str
    last_event: str
    expected_seconds: int
    since: str


FIELDS = Fields(
    engine="list",
    select=("agent.id", "agent.name", "location", "last_event", "expected_seconds", "since"),
    dates=("last_event", "since"),
    numeric=("expected_seconds",),
)
NEWEST_FIRST = Sort(("since",), descending=True)


@operation(
    "GET", "/agents/silent-sources", params=Listing, place=Place.MASTER, require=(READ_ANY,), messages=READ,
    item=Silent,
)  # fmt: skip
async def list_silent_sources(ctx: Context, params: Listing) -> Outcome:
    """Agents and locations of agents that used to send events regularly and no longer do."""
    scope = scope_of(ctx.grant("agent:id"))
    try:
        found = await asyncio.to_thread(read_silent, ctx.node.paths.silent_sources)
    except (OSError, msgspec.MsgspecError) as error:
        raise SecmonError(1006, str(ctx.node.paths.silent_sources)) from error
    items = [_shown(one) for one in found if padded(one.agent) in scope]
    page = query.run(items, read_query(params, FIELDS), FIELDS, default_sort=NEWEST_FIRST)
    return Outcome(items=list(page.items), total=page.total)


def _shown(one: SilentSource) -> dict[str, Any]:
    return {
        "agent": {"id": padded(one.agent), "name": one.name},
        "location": one.location,
        "last_event": _time(one.last_event),
        "expected_seconds": one.expected_seconds,
        "since": _time(one.since),
    }


def _time(seconds: int) -> str:
    return iso_z(datetime.fromtimestamp(seconds, UTC))


class GatherSources(Struct, frozen=True, kw_only=True):
    """Questions by node; ``others``: further nodes are asked for all of their sources."""

    asked: dict[str, SourceQuestion] = {}
    others: bool = False


class OwnSources(SourceQuestion, frozen=True, kw_only=True):
    """The question to one node."""


@operation(
    "PUT", "/internal/sources", params=GatherSources, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def gather_sources(ctx: Context, params: GatherSources) -> Plain:
    """The reports of the nodes that answer, for the master's own watch."""
    nodes, membership = ctx.node.services.nodes, ctx.node.services.membership
    if ctx.call.node:
        raise SecmonError(4000, f"{ctx.call.node} may not ask for the sources of other nodes")
    if nodes is None or membership is None:
        raise SecmonError(3012)
    members = {member.name for member in membership.members()}
    asked = {name: one for name, one in params.asked.items() if name in members}
    if params.others:
        asked |= {name: SourceQuestion() for name in members - set(asked)}
    questions = {name: OwnSources(after=one.after, silent=one.silent) for name, one in asked.items()}
    call = structs.replace(ctx.call, operation=INTERNAL[OWN], identity=node_identity())
    answers = await nodes.call_nodes(call, questions)
    for name, answer in answers.items():
        if isinstance(answer, SecmonError):
            ctx.node.counters.add("sources.unanswered")
            log.debug("The sources of %s are not known: %s", name, answer.message)
    return Plain(data={name: answer.data for name, answer in answers.items() if isinstance(answer, Plain)})


@operation(
    "PUT", "/internal/own-sources", params=OwnSources, open_to_all=True, exempt=True, catalogue=INTERNAL
)  # fmt: skip
async def report_own_sources(ctx: Context, params: OwnSources) -> Plain:
    """The sources of this node's agents. Raises 1121, 1013, 1014 when the analysis does not run."""
    analysis = ctx.node.services.analysis
    if analysis is None:
        raise SecmonError(1121, "secmon-analysisd")
    found: SourceReport = await analysis.sources(SourceQuestion(after=params.after, silent=params.silent))
    return Plain(data=msgspec.to_builtins(found))
