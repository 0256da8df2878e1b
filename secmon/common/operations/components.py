"""``/manager/configuration/{component}/{configuration}`` and its twin: what is in force (manager.md 7)."""

from collections.abc import Mapping
from typing import Any

from secmon.common.config.convert import mask_secrets
from secmon.common.errors import Kind, SecmonError
from secmon.common.operations.agents_components import DAEMONS, PAIRS, Component, Configuration
from secmon.common.operations.catalogue import Place, operation
from secmon.common.operations.executor import Context
from secmon.common.operations.parameters import Common, Names
from secmon.common.operations.permissions import on_manager, on_node
from secmon.common.outcome import Messages, Outcome

IN_FORCE = Messages(all="The active configuration was read", none="No active configuration was read")

_OTHER_DAEMONS: Mapping[tuple[str, str], str] = {("com", "cluster"): "secmon-clusterd"}
"""Where the configuration is not that of the component's daemon."""
_SHOWN_AS: Mapping[tuple[str, str], str] = {
    ("analysis", "active_response"): "active-response",
    ("logcollector", "socket"): "target",
    ("mail", "alerts"): "email_alerts",
    ("monitor", "global"): "monitord",
    ("monitor", "internal"): "monitord",
    ("secmon-db", "internal"): "wazuh_db",
    ("wazuh-db", "internal"): "wazuh_db",
}
"""Key of the answer, where it is not the name of the configuration (manager.md 7.4)."""


class InForce(Common, frozen=True, kw_only=True):
    """A component, and what of its configuration."""

    component: Component
    configuration: Configuration


class NodeInForce(InForce, frozen=True, kw_only=True):
    """A component of a node, and what of its configuration."""

    node_id: Names


@operation(
    "GET", "/manager/configuration/{component}/{configuration}", params=InForce, require=(on_manager("read"),),
    messages=IN_FORCE, item=dict[str, Any], exempt=True,
)  # fmt: skip
@operation(
    "GET", "/cluster/{node_id}/configuration/{component}/{configuration}", params=NodeInForce, place=Place.NODE,
    node_param="node_id", require=(on_node("read"),), messages=IN_FORCE, item=dict[str, Any], needs_cluster=True,
    exempt=True,
)  # fmt: skip
async def read_in_force(ctx: Context, params: InForce) -> Outcome:
    """The configuration that is in force in a daemon; secrets are masked."""
    component, name = params.component, params.configuration
    if name not in PAIRS[component]:
        raise SecmonError(1128, f"{component}: {', '.join(PAIRS[component])}")
    pair, outcome = (component, name), Outcome()
    daemon = _OTHER_DAEMONS.get(pair, DAEMONS[component])
    try:
        found = await ctx.node.services.control.active_config(daemon, name)
    except SecmonError as error:
        if error.kind is Kind.INTERNAL:
            raise
        outcome.fail(SecmonError(error.code, error.extra), ctx.node.name)
        return outcome
    masked = mask_secrets({name: found[name]})
    outcome.items.append({_SHOWN_AS.get(pair, name): masked[name]})
    return outcome
