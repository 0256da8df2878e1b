"""``/cluster``: the nodes, their health, and what they have in common (cluster.md 6)."""

import logging
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.cluster.node import HealthSource, Membership
from secmon.cluster.parameters import Common, Listing, Names
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.query import Fields
from secmon.operations.permissions import NodeList, on_nodes, on_this_node
from secmon.security.rbac.authorization import Require

log = logging.getLogger("secmon.operations")

RULESET_FOLDERS = ("etc/decoders", "etc/rules", "etc/lists")
MASKED = "*****"


class LocalInfo(Struct):
    """This node in its cluster."""

    node: str
    cluster: str
    type: Literal["master", "worker"]


class LocalConfig(Struct):
    """The effective cluster section; the key is masked."""

    disabled: bool
    node_type: Literal["master", "worker"]
    name: str
    node_name: str
    key: str
    port: int
    bind_addr: str
    nodes: list[str]
    hidden: Literal["yes", "no"]


class ClusterNode(Struct):
    """A connected node."""

    name: str
    type: Literal["master", "worker"]
    version: str
    ip: str


class Unable(Struct):
    """A node that cannot become master now."""

    node: str
    address: str
    reason: str


class Mastership(Struct):
    """Who is master by the store of record, since when and why; who else could be, and which nodes could not and why;
    why the store does not answer.
    """

    term: int
    holder: str
    since: str | None
    reason: str
    candidates: list[str]
    unable: list[Unable]
    trouble: str | None = None


class NodeHealth(Struct):
    """Health of a node; the master has no ``status`` but may name nodes ``lost`` or ``refused``.

    With a store of record the master's has ``mastership`` too.
    """

    info: dict[str, Any]
    status: dict[str, Any] | None = None
    lost: list[dict[str, Any]] | None = None
    refused: list[dict[str, Any]] | None = None
    mastership: Mastership | None = None


class ClusterStatus(Struct):
    """Whether the cluster is configured, and whether its daemon runs."""

    enabled: Literal["yes", "no"]
    running: Literal["yes", "no"]
    mastership: Mastership | None = None


class Synchronization(Struct):
    """Whether a node holds exactly the master's rules, decoders and lists."""

    name: str
    synced: bool


class NodesQuery(Listing, frozen=True, kw_only=True):
    """Which nodes."""

    type: Annotated[Literal["worker", "master"] | None, Meta(description="Only nodes of this type.")] = None
    nodes_list: list[Names] | None = None


NODE_FIELDS = Fields(engine="list", select=("name", "type", "version", "ip"), sort=("name", "type", "version", "ip"))
HEALTH = Messages(all="The health of the nodes was read", none="No health was read")
READ_LOCAL = Messages(all="This node's cluster information was read", none="No cluster information was read")
CHECK_MESSAGES = Messages(
    all="All nodes were compared", some="Some nodes could not be compared", none="No node was compared"
)


def membership_of(ctx: Context) -> Membership:
    """The list of nodes. Raises 3013 where there is none."""
    membership = ctx.node.services.membership
    if membership is None:
        raise SecmonError(3013)
    return membership


@operation(
    "GET", "/cluster/local/info", params=Common, require=(on_this_node("read"),), messages=READ_LOCAL, item=LocalInfo,
    needs_cluster=True, exempt=True,
)  # fmt: skip
async def local_info(ctx: Context, params: Common) -> Outcome:
    """Name, cluster and type of the node asked."""
    section = current_cluster(ctx.node.paths, ctx.node.main_config.cluster)
    return Outcome(items=[{"node": section.node_name, "cluster": section.name, "type": section.node_type}])


@operation(
    "GET", "/cluster/local/config", params=Common, require=(on_this_node("read"),), messages=READ_LOCAL,
    item=LocalConfig, needs_cluster=True, exempt=True,
)  # fmt: skip
async def local_config(ctx: Context, params: Common) -> Outcome:
    """Cluster section of the node asked, in effect."""
    section = current_cluster(ctx.node.paths, ctx.node.main_config.cluster)
    item = {
        "disabled": section.disabled,
        "node_type": section.node_type,
        "name": section.name,
        "node_name": section.node_name,
        "key": MASKED,
        "port": section.port,
        "bind_addr": section.bind_addr,
        "nodes": list(section.nodes),
        "hidden": "yes" if section.hidden else "no",
    }
    return Outcome(items=[item])


@operation(
    "GET", "/cluster/status", params=Common, require=(Require("cluster:status"),), data=ClusterStatus, exempt=True
)
async def status(ctx: Context, params: Common) -> Plain:
    """Whether the cluster is enabled and running."""
    states = await ctx.node.services.control.checked_states()
    running = states.get("secmon-clusterd") == "running"
    words = {True: "yes", False: "no"}
    shown = {"enabled": words[ctx.node.clustered], "running": words[ctx.node.clustered and running]}
    return Plain(data=shown | await _mastership(ctx))


async def _mastership(ctx: Context) -> dict[str, Any]:
    """The member ``mastership`` of answers; nothing without a store of record, or while its daemon does not answer."""
    source = ctx.node.services.mastership
    try:
        return {} if source is None else {"mastership": dict(await source.mastership())}
    except SecmonError as error:
        log.debug("%s", error)
        return {}


@operation(
    "GET", "/cluster/nodes", params=NodesQuery, place=Place.MASTER, require=(on_nodes("read"),), item=ClusterNode,
    fields=NODE_FIELDS, needs_cluster=True, exempt=True,
    messages=Messages(all="All nodes were read", some="Some nodes were read", none="No nodes were read"),
)  # fmt: skip
async def nodes(ctx: Context, params: NodesQuery) -> Outcome:
    """The connected nodes."""
    members = {member.name: member for member in membership_of(ctx).members()}
    outcome = Outcome()
    for name in ctx.grant("node:id").select(members):
        member = members.get(name)
        if member is None:
            outcome.fail(SecmonError(1730), name)
        elif params.type in (None, member.type):
            item = {"name": member.name, "type": member.type, "version": member.version, "ip": member.ip}
            outcome.items.append(item)
    return outcome


@operation(
    "GET", "/cluster/healthcheck", params=NodeList, place=Place.MASTER, require=(on_nodes("read"),), item=NodeHealth,
    needs_cluster=True, exempt=True,
    messages=HEALTH,
)  # fmt: skip
async def healthcheck(ctx: Context, params: NodeList) -> Outcome:
    """Health of the nodes: keepalives, file and security replication, nodes lost or refused."""
    source: HealthSource | None = ctx.node.services.health
    if source is None:
        raise SecmonError(3013)
    known = {entry["info"]["name"]: dict(entry) for entry in source.health()}
    if ctx.node.name in known:
        known[ctx.node.name] |= await _mastership(ctx)
    wanted = ctx.grant("node:id").select(known)
    return Outcome(items=[known[name] for name in sorted(wanted) if name in known])


async def _compare(ctx: Context, outcome: Outcome) -> None:
    """Replace each node's hashes by whether they equal the master's."""
    reference = await _ruleset_hashes(ctx)
    for item in outcome.items:
        item["synced"] = item.pop("hashes") == reference


async def _ruleset_hashes(ctx: Context) -> dict[str, str]:
    digests = ctx.node.services.digests
    if digests is None:
        raise SecmonError(3012)
    return dict(await digests.hashes(RULESET_FOLDERS))


@operation(
    "GET", "/cluster/ruleset/synchronization", params=NodeList, place=Place.NODES, node_param="nodes_list",
    require=(on_nodes("read"),), item=Synchronization, needs_cluster=True, exempt=True, finish=_compare,
    messages=CHECK_MESSAGES,
)  # fmt: skip
async def ruleset_synchronization(ctx: Context, params: NodeList) -> Outcome:
    """Whether each node holds exactly the master's rules, decoders and lists."""
    return Outcome(items=[{"name": ctx.node.name, "hashes": await _ruleset_hashes(ctx)}])
