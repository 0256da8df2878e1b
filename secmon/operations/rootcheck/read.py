"""``GET /rootcheck/{agent_id}`` and its last scan (agent-data.md 6.4)."""

import asyncio
from typing import Annotated

from msgspec import Meta
from sqlalchemy import and_, case, select

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Sort
from secmon.common.query.columns import Column, Kind
from secmon.inventory.rootcheck import MARKERS
from secmon.inventory.schema import rootcheck_findings
from secmon.operations.agents.commands import OwnAgents, TargetAgent
from secmon.operations.agents.upgrades import iso_time
from secmon.operations.internal import INTERNAL
from secmon.operations.inventory.columns import columns_of
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.last_scan import LastScan, last_scan, read_last_scan
from secmon.operations.inventory.node_reads import declare_node_read
from secmon.operations.inventory.reads import read_agent
from secmon.operations.inventory.shapes import AgentListing, item_type
from secmon.security.rbac.authorization import Require

READ_FINDINGS = Require("rootcheck:read", "agent:id", param="agent_id")
READ = Messages(all="The findings were read", none="No findings were read")
LAST_SCAN_OWN = "GET /internal/own-inventory/rootcheck/last-scan"
START, END = MARKERS[:2]
STATUSES = ("all", "outstanding", "solved")
_DAY_SECONDS = 86400

_found, _end = rootcheck_findings, rootcheck_findings.alias("ending")
_ended = and_(_end.c.agent_id == _found.c.agent_id, _end.c.log == END)
_status = case((_found.c.date_last > _end.c.date_last - _DAY_SECONDS, "outstanding"), else_="solved")

FINDINGS = DataSet(
    name="rootcheck",
    source=select(_found).join(_end, _ended).where(_found.c.log.not_in(MARKERS)),
    agent=_found.c.agent_id,
    key=_found.c.id,
    columns=columns_of(_found, "log pci_dss cis")
    | {name: Column(_found.c[name], Kind.DATE, render=iso_time) for name in ("date_first", "date_last")}
    | {"status": Column(_status)},
    default_sort=Sort(("date_last",), descending=True),
    shows_agent=False,
)
Finding = item_type("RootcheckFinding", FINDINGS)

declare_node_read(FINDINGS)


class FindingsListing(AgentListing, frozen=True, kw_only=True):
    """An agent, the page to return, and what its findings must have."""

    status: Annotated[Alphanumeric, Meta(description="`all`, `outstanding` (in the last scan) or `solved`.")] = "all"
    pci_dss: Alphanumeric | None = None
    cis: Alphanumeric | None = None


@operation(
    "GET", "/rootcheck/{agent_id}", params=FindingsListing, place=Place.AGENT, item=Finding, messages=READ,
    require=(READ_FINDINGS,),
)  # fmt: skip
async def read_findings(ctx: Context, params: FindingsListing) -> Result:
    """Findings of the rootkit and policy scan of an agent; none before its first scan has ended."""
    if params.status not in STATUSES:
        raise SecmonError(1603, repr(params.status))
    return await read_agent(ctx, params, FINDINGS, unknown=1701)


@operation(
    "GET", "/rootcheck/{agent_id}/last_scan", params=TargetAgent, place=Place.AGENT, item=LastScan, messages=READ,
    require=(READ_FINDINGS,),
)  # fmt: skip
async def read_last_rootcheck(ctx: Context, params: TargetAgent) -> Result:
    """When an agent's last rootkit and policy scan began and ended."""
    return await read_last_scan(ctx, params.agent_id, LAST_SCAN_OWN)


@operation(
    "GET", "/internal/own-inventory/rootcheck/last-scan", params=OwnAgents, open_to_all=True, catalogue=INTERNAL,
    item=LastScan,
)  # fmt: skip
async def read_own_last_scan(ctx: Context, params: OwnAgents) -> Outcome:
    """The last rootkit and policy scan of an agent of this node."""
    [agent] = params.agents
    question = select(_found.c.log, _found.c.date_last).where(
        _found.c.agent_id == agent, _found.c.log.in_((START, END))
    )

    def read() -> Outcome:
        with ctx.node.inventory.read() as connection:
            times = dict(map(tuple, connection.execute(question)))
        return last_scan(times.get(START), times.get(END), iso_time)

    return await asyncio.to_thread(read)
