"""``/manager/warnings`` and ``/cluster/warnings``: what on nodes needs attention now."""

import asyncio

from msgspec import Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Node
from secmon.cluster.parameters import Common
from secmon.common.outcome import Messages, Outcome
from secmon.operations.metrics.daemon_answers import DaemonAnswer, all_samples, daemon_answers
from secmon.operations.metrics.node_warnings import NodeWarning, node_warnings
from secmon.operations.permissions import NodeList, on_manager, on_nodes


class WarningItem(Struct):
    """``kind``: daemon, restart, disk, ...; ``subject``: which one; ``time``: what the message dates."""

    kind: str
    subject: str
    message: str
    remediation: str
    time: str | None


class NodeWarnings(Struct):
    """A node, and what needs attention there; nothing when all is well."""

    name: str
    warnings: list[WarningItem]


WARNINGS = Messages(all="All nodes were examined", some="Some nodes were not examined", none="No node was examined")


@operation(
    "GET", "/manager/warnings", params=Common, require=(on_manager("read"),), messages=WARNINGS, item=NodeWarnings,
    exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/warnings", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"),), messages=WARNINGS, item=NodeWarnings, needs_cluster=True, exempt=True,
)  # fmt: skip
async def warnings(ctx: Context, params: Common) -> Outcome:
    """What needs attention now: daemons, disks, journals, outputs, certificates."""
    node = ctx.node
    found = await asyncio.to_thread(_examine, node, await daemon_answers(node))
    return Outcome(items=[{"name": node.name, "warnings": [each._asdict() for each in found]}])


def _examine(node: Node, answers: list[DaemonAnswer]) -> list[NodeWarning]:
    return node_warnings(all_samples(node, answers), node.clock.now())
