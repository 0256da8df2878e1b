"""Requirements that several areas share."""

from secmon.cluster.parameters import Common, Names
from secmon.security.rbac.authorization import Require


class NodePath(Common, frozen=True, kw_only=True):
    """Path of an operation on one node."""

    node_id: Names


class NodeList(Common, frozen=True, kw_only=True):
    """Query parameter of operations on the nodes listed, or on all."""

    nodes_list: list[Names] | None = None


def on_manager(action: str) -> Require:
    """``manager:<action>``, or ``cluster:<action>`` on this node as clusters grant it (manager.md 19, row 10)."""
    return Require(f"manager:{action}", also=(Require(f"cluster:{action}", "node:id"),))


def on_this_node(action: str) -> Require:
    """``cluster:<action>`` on the node that executes."""
    return Require(f"cluster:{action}", "node:id")


def on_node(action: str) -> Require:
    """``cluster:<action>`` on the node that ``node_id`` names."""
    return Require(f"cluster:{action}", "node:id", param="node_id")


def on_nodes(action: str) -> Require:
    """``cluster:<action>`` on each of ``nodes_list``."""
    return Require(f"cluster:{action}", "node:id", param="nodes_list", mode="each")
