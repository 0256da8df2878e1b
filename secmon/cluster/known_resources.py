"""The resources of a node, for the evaluation of permissions (rbac.md 7.3)."""

from collections.abc import Mapping, Set

from secmon.agents.groups.folders import list_groups
from secmon.cluster.node import Node, RulesetKind

_RULESET_KINDS: Mapping[str, RulesetKind] = {"rule:file": "rule", "decoder:file": "decoder", "list:file": "list"}


class Inventory:
    """Implements ``rbac.inventory.ResourceInventory`` with what this node knows."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def expand(self, kind: str, value: str) -> Set[str]:
        if kind == "node:id":
            membership = self._node.services.membership
            names = {member.name for member in membership.members()} | set(membership.absent()) if membership else set()
            return names | {self._node.name}
        if kind == "agent:group":
            return self._node.memberships.members(value)
        if kind == "agent:id":
            return self._node.memberships.everybody()
        if kind == "group:id":
            return frozenset(list_groups(self._node.paths))
        if kind in _RULESET_KINDS and self._node.services.ruleset is not None:
            return self._node.services.ruleset.names(_RULESET_KINDS[kind])
        view = self._node.security.view()
        held = {"role:id": view.roles, "policy:id": view.policies, "rule:id": view.rules}.get(kind, {})
        return {str(one) for one in held}
