"""``GET /metrics``: the figures of the node asked, for Prometheus."""

from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import NoParams
from secmon.common.errors import SecmonError
from secmon.common.outcome import Raw
from secmon.operations.metrics.exposition import CONTENT_TYPE
from secmon.security.rbac.authorization import Require


class MetricsQuery(NoParams, frozen=True, kw_only=True):
    """Metrics take no parameter."""


@operation(
    "GET", "/metrics", params=MetricsQuery, auth="scraper", raw_type=CONTENT_TYPE, exempt=True,
    require=(Require("metrics:read", also=(Require("manager:read"),)),),
)  # fmt: skip
async def read_metrics(ctx: Context, params: MetricsQuery) -> Raw:
    """Metrics of the node asked, as OpenMetrics text."""
    source = ctx.node.services.metrics
    if source is None:  # a process that answers no clients
        raise SecmonError(1121, "secmon-apid")
    return Raw(body=await source.text(), content_type=CONTENT_TYPE)
