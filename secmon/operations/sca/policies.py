"""``GET /sca/{agent_id}``: the policies of an agent, with the figures of their last scan (agent-data.md 5.7)."""

from sqlalchemy import and_, select

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Result
from secmon.common.query import Sort
from secmon.common.query.columns import Column
from secmon.inventory.schema import sca_policies, sca_scans
from secmon.operations.inventory.columns import columns_of, epoch_time
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.node_reads import declare_node_read
from secmon.operations.inventory.reads import read_agent
from secmon.operations.inventory.shapes import AgentListing, item_type
from secmon.operations.sca.parameters import READ, READ_ASSESSMENT, Symbols

_of_policy = and_(sca_scans.c.agent_id == sca_policies.c.agent_id, sca_scans.c.policy_id == sca_policies.c.id)
POLICIES = DataSet(
    name="sca",
    source=select(sca_policies).join(sca_scans, _of_policy),
    agent=sca_policies.c.agent_id,
    key=sca_policies.c.id,
    columns={"policy_id": Column(sca_policies.c.id)}
    | columns_of(sca_policies, "name description references hash_file")
    | columns_of(sca_scans, "pass fail invalid total_checks score")
    | {name: epoch_time(sca_scans.c[name]) for name in ("start_scan", "end_scan")},
    default_sort=Sort(("policy_id",), descending=True),
    required=("policy_id",),
    shows_agent=False,
)
AssessmentPolicy = item_type("AssessmentPolicy", POLICIES)

declare_node_read(POLICIES)


class PoliciesListing(AgentListing, frozen=True, kw_only=True):
    """An agent, the page to return, and what its policies must have."""

    name: str | None = None
    description: Symbols | None = None
    references: str | None = None


@operation(
    "GET", "/sca/{agent_id}", params=PoliciesListing, place=Place.AGENT, item=AssessmentPolicy, messages=READ,
    require=(READ_ASSESSMENT,),
)  # fmt: skip
async def read_policies(ctx: Context, params: PoliciesListing) -> Result:
    """Policies of an agent's configuration assessment, and how many checks its host passes."""
    return await read_agent(ctx, params, POLICIES)
