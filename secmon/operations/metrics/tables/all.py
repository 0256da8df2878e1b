"""All tables."""

from collections.abc import Mapping, Sequence

from secmon.operations.metrics.metric import Metric
from secmon.operations.metrics.tables import (
    analysisd,
    apid,
    authd,
    clusterd,
    daemons,
    db,
    leaderd,
    modulesd,
    node,
    outputs,
    remoted,
)

OF_SEVERAL_DAEMONS: Sequence[Metric] = daemons.METRICS
"""They get the label ``daemon``."""
OF_DAEMON: Mapping[str, Sequence[Metric]] = {
    "secmon-apid": apid.METRICS,
    "secmon-authd": authd.METRICS,
    "secmon-analysisd": analysisd.METRICS,
    "secmon-db": db.METRICS,
    "secmon-remoted": remoted.METRICS,
    "secmon-modulesd": modulesd.METRICS,
    "secmon-clusterd": clusterd.METRICS,
    "secmon-leaderd": leaderd.METRICS,
    "secmon-csyslogd": outputs.METRICS,
    "secmon-maild": outputs.METRICS,
    "secmon-integratord": outputs.METRICS,
}
OF_NODE: Sequence[Metric] = node.METRICS
"""Without a counter: the node reads them itself."""
METRICS = (*OF_NODE, *OF_SEVERAL_DAEMONS, *(metric for metrics in OF_DAEMON.values() for metric in metrics))
HELP: Mapping[str, str] = {metric.name: metric.help for metric in METRICS if metric.help}
