"""``/manager/configuration/{component}/{configuration}`` and its twin: what is in force (manager.md 7)."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Names
from secmon.common.daemon_names import serving_daemon
from secmon.common.errors import Kind, SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.config.as_json import mask_secrets
from secmon.operations.permissions import on_manager, on_node

IN_FORCE = Messages(all="The active configuration was read", none="No active configuration was read")

Component = Literal[
    "agent", "agentless", "analysis", "auth", "com", "csyslog", "integrator", "logcollector", "mail", "monitor",
    "request", "syscheck", "secmon-db", "wazuh-db", "wmodules",
]  # fmt: skip
Configuration = Literal[
    "client", "buffer", "labels", "internal", "agentless", "global", "active_response", "alerts", "command", "rules",
    "decoders", "auth", "logging", "reports", "active-response", "cluster", "csyslog", "integration", "localfile",
    "socket", "remote", "syscheck", "rootcheck", "wdb", "wmodules", "rule_test",
]  # fmt: skip

PAIRS: Mapping[str, tuple[str, ...]] = {
    "agent": ("client", "buffer", "labels", "internal"),
    "agentless": ("agentless",),
    "analysis": (
        "global", "active_response", "alerts", "command", "rules", "decoders", "internal", "rule_test",
    ),
    "auth": ("auth",),
    "com": ("active-response", "logging", "internal", "cluster"),
    "csyslog": ("csyslog",),
    "integrator": ("integration",),
    "logcollector": ("localfile", "socket", "internal"),
    "mail": ("global", "alerts", "internal"),
    "monitor": ("global", "internal", "reports"),
    "request": ("global", "remote", "internal"),
    "syscheck": ("syscheck", "rootcheck", "internal"),
    "secmon-db": ("wdb", "internal"),
    "wazuh-db": ("wdb", "internal"),
    "wmodules": ("wmodules",),
}  # fmt: skip
"""Configurations of each component (manager.md 7.1)."""

_DAEMONS: Mapping[str, str] = {
    "agent": "secmon-analysisd",
    "agentless": "secmon-agentlessd",
    "analysis": "secmon-analysisd",
    "auth": "secmon-authd",
    "com": "secmon-execd",
    "csyslog": "secmon-csyslogd",
    "integrator": "secmon-integratord",
    "logcollector": "secmon-logcollector",
    "mail": "secmon-maild",
    "monitor": "secmon-monitord",
    "request": "secmon-remoted",
    "syscheck": "secmon-syscheckd",
    "secmon-db": "secmon-db",
    "wazuh-db": "secmon-db",
    "wmodules": "secmon-modulesd",
}
"""The daemon of a node for each component. A manager has no agent: ``agent`` is served by the analysis daemon."""

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


class _Source(NamedTuple):
    """Which daemon is asked, and for which of its sections."""

    daemon: str
    section: str


def _source(component: str, name: str, *, clustered: bool) -> _Source:
    """A daemon has the sections of its own component by their names, those of other daemons as ``<daemon>/<name>``."""
    if (component, name) == ("com", "cluster") and clustered:
        return _Source("secmon-clusterd", name)
    daemon = _DAEMONS[component]
    other = serving_daemon(daemon)
    return _Source(daemon, name) if other == daemon else _Source(other, f"{daemon.removeprefix('secmon-')}/{name}")


def check_pair(component: str, name: str) -> None:
    """Raises 1128 for a configuration that no such component has."""
    if name not in PAIRS[component]:
        raise SecmonError(1128, f"{component}: {', '.join(PAIRS[component])}")


async def in_force(ctx: Context, component: str, name: str) -> dict[str, Any]:
    """The configuration that is in force in a component of this node, under its key; secrets are masked.

    Raises as ``Control.active_config``.
    """
    source = _source(component, name, clustered=ctx.node.clustered)
    try:
        found = await ctx.node.services.control.active_config(source.daemon, source.section)
    except SecmonError as error:
        raise SecmonError(1116, f"{component}/{name}") if error.code == 1116 else error from None
    masked = mask_secrets({name: found[source.section]})
    return {_SHOWN_AS.get((component, name), name): masked[name]}


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
    check_pair(params.component, params.configuration)
    outcome = Outcome()
    try:
        outcome.items.append(await in_force(ctx, params.component, params.configuration))
    except SecmonError as error:
        if error.kind is Kind.INTERNAL:
            raise
        outcome.fail(SecmonError(error.code, error.extra), ctx.node.name)
    return outcome
