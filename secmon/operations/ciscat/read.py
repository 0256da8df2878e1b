"""``GET /ciscat/{agent_id}/results``, and the results of all agents (agent-data.md 7.4)."""

from sqlalchemy import select

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, Common, Limit, Offset, Q, SearchFor, Select, SortBy
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Sort
from secmon.inventory.schema import benchmark_results
from secmon.operations.agents.parameters import AgentId
from secmon.operations.inventory.columns import columns_of, scan_time
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.node_reads import declare_node_read
from secmon.operations.inventory.reads import read_agent, read_agents_rows
from secmon.operations.inventory.shapes import AgentsListing, Count, item_type, with_filters
from secmon.security.rbac.authorization import Require

_FIGURES = "pass fail error notchecked unknown score"
RESULTS = DataSet(
    name="benchmarks",
    source=select(benchmark_results),
    agent=benchmark_results.c.agent_id,
    key=benchmark_results.c.id,
    columns=columns_of(benchmark_results, f"scan.id benchmark profile {_FIGURES}")
    | {"scan.time": scan_time(benchmark_results.c.scan_time)},
    default_sort=Sort(("scan.id",)),
)
READ = Messages(all="The results were read", some="The results of some agents could not be read", none="No results")

_FILTERS = {**dict.fromkeys(("benchmark", "profile"), Alphanumeric), **dict.fromkeys(_FIGURES.split(), Count)}


class _Agent(Common, frozen=True, kw_only=True):
    """An agent, and the page to return."""

    agent_id: AgentId
    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None


AgentResults, AllResults = with_filters(_Agent, _FILTERS), with_filters(AgentsListing, _FILTERS)
BenchmarkResult = item_type("BenchmarkResult", RESULTS)

declare_node_read(RESULTS)


@operation(
    "GET", "/ciscat/{agent_id}/results", params=AgentResults, place=Place.AGENT, item=BenchmarkResult, messages=READ,
    require=(Require("ciscat:read", "agent:id", param="agent_id"),),
)  # fmt: skip
async def read_results(ctx: Context, params: _Agent) -> Result:
    """Results of the latest benchmark scan of an agent's host."""
    return await read_agent(ctx, params, RESULTS)


@operation(
    "GET", "/experimental/ciscat/results", params=AllResults, place=Place.AGENT, item=BenchmarkResult, messages=READ,
    require=(Require("ciscat:read", "agent:id", param="agents_list", mode="each"),),
)  # fmt: skip
async def read_all_results(ctx: Context, params: AgentsListing) -> Outcome:
    """Results of the latest benchmark scan of the hosts of agents."""
    return await read_agents_rows(ctx, params, RESULTS)
