"""``PUT /manager/analysisd/reload`` and its twin: the ruleset on disk comes into force (newer-versions.md 2).

Nodes notice changed files within a second by themselves; the answer says whether they could be used.
"""

from typing import Any

from msgspec import Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.permissions import NodeList, on_manager, on_nodes

RELOADED = "The ruleset on disk is in force"
RELOAD = Messages(
    all="The rulesets were reloaded", some="The rulesets of some nodes were not reloaded",
    none="No ruleset was reloaded",
)  # fmt: skip


class ReloadedNode(Struct):
    """A node whose ruleset on disk is in force. ``msg``: the warnings about it, or that there are none."""

    name: str
    msg: str


@operation(
    "PUT", "/manager/analysisd/reload", params=Common, require=(on_manager("read"), on_manager("restart")),
    messages=RELOAD, item=ReloadedNode,
)  # fmt: skip
@operation(
    "PUT", "/cluster/analysisd/reload", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"), on_nodes("restart")), messages=RELOAD, item=ReloadedNode, needs_cluster=True,
)  # fmt: skip
async def reload_ruleset(ctx: Context, params: Common) -> Outcome:
    """Bring the rules, decoders and lists on disk into force. Raises 1121, 1013, 1014."""
    outcome, name, analysis = Outcome(), ctx.node.name, ctx.node.services.analysis
    if analysis is None:
        raise SecmonError(1121, "secmon-analysisd")
    status = await analysis.ruleset(refresh=True)
    if status["error"] is not None:
        outcome.fail(SecmonError(1914, _described(status["error"])), name)
    else:
        warnings = ", ".join(map(_described, status["warnings"]))
        outcome.items.append({"name": name, "msg": warnings or RELOADED})
    return outcome


def _described(message: dict[str, Any]) -> str:
    place = ":".join(str(part) for part in (message["file"], message["line"]) if part)
    return f"{place}: {message['text']}" if place else str(message["text"])
