"""From policies in order to the ids a caller may touch (rbac.md 7.1 to 7.3).

Precedence is positional: a later entry overrides an earlier one, in both modes.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from secmon.common.identity import Mode
from secmon.security.rbac.inventory import EMPTY_SET, ResourceInventory
from secmon.security.rbac.model import Policy

RESOURCELESS = "*:*"
"""Kind of actions that need no existing object, written ``*:*:*`` in a policy."""

_COMPONENT = re.compile(r"(?:[a-zA-Z0-9_.]+:[a-zA-Z0-9_.]+|\*:\*):[a-zA-Z0-9_.*/-]+")


class PermissionEntry(NamedTuple):
    """One usable resource of a flattened action."""

    kind: str
    value: str
    allow: bool


class PermissionMap:
    """Flattened policies: action to resource to effect, in evaluation order.

    ``actions`` is what ``GET /security/users/me/policies`` shows. Entries that cannot be evaluated (combined with
    ``&``, malformed) are included and have no effect (rbac.md 6).
    """

    __slots__ = ("_entries", "actions")

    def __init__(self, actions: Mapping[str, Mapping[str, str]]) -> None:
        self.actions = actions
        entries: dict[tuple[str, str], list[PermissionEntry]] = {}
        for action, resources in actions.items():
            for resource, effect in resources.items():
                if counts(resource):
                    kind, value = _split(resource)
                    target = "agent:id" if kind == "agent:group" else kind
                    entries.setdefault((action, target), []).append(PermissionEntry(kind, value, effect == "allow"))
        self._entries = {key: tuple(found) for key, found in entries.items()}

    def entries(self, action: str, kind: str) -> tuple[PermissionEntry, ...]:
        """Entries for ``action`` on resources of ``kind``; those of ``agent:group`` are under ``agent:id``."""
        return self._entries.get((action, kind), ())


EMPTY = PermissionMap({})


class Requirement(NamedTuple):
    """The requirement of a request: one of ``actions`` on these ids of ``kind``; ``None``: all permitted ones."""

    actions: tuple[str, ...]
    kind: str
    ids: tuple[str, ...] | None


class Scope(msgspec.Struct, frozen=True):
    """A set of resources that is not enumerated.

    ``complement`` False: exactly ``ids``, some of which may not exist. True: everything that exists except ``ids``.
    """

    ids: frozenset[str] = frozenset()
    complement: bool = False

    @property
    def everything(self) -> bool:
        """Whether no filter is needed."""
        return self.complement and not self.ids

    @property
    def nothing(self) -> bool:
        """Whether no resource can be in it."""
        return not self.complement and not self.ids

    def __contains__(self, item: str) -> bool:
        return (item in self.ids) is not self.complement

    def among(self, existing: Iterable[str]) -> set[str]:
        """The members of ``existing`` that are in this scope."""
        return {item for item in existing if item in self}


def counts(resource: str) -> bool:
    """Whether ``resource`` can be evaluated; one that cannot neither grants nor denies anything (rbac.md 6)."""
    return _COMPONENT.fullmatch(resource) is not None


def flatten(policies: Iterable[Policy]) -> PermissionMap:
    """Merge policies, given in effective order (roles in order, then their policies by position) (rbac.md 7.1)."""
    ordered = tuple(policies)
    return PermissionMap(
        {
            action: {resource: ordered[index].effect for resource, index in slot.items()}
            for action, slot in deciding(ordered).items()
        }
    )


def deciding(policies: Sequence[Policy]) -> dict[str, dict[str, int]]:
    """Which of ``policies``, by its index, decides on each action and resource; both in evaluation order."""
    actions: dict[str, dict[str, int]] = {}
    for index, policy in enumerate(policies):
        resources = [_normal(resource) for resource in policy.resources]
        for action in policy.actions:
            for resource in resources:
                slot = actions.setdefault(action, {})
                if "&" not in resource:
                    _drop_overridden(slot, resource)
                slot[resource] = index
    return actions


def _drop_overridden(slot: dict[str, int], resource: str) -> None:
    """Drop what ``resource`` overrides, so that it ends up last. A wildcard overrides its whole kind.

    ``agent:id:*`` overrides groups as well, since groups are agents. Wildcards of unrelated kinds leave them alone:
    the public product erases them too, which turns a grant on nodes into a loss of agents (rbac.md 12, E75).
    """
    slot.pop(resource, None)
    kind, value = _split(resource)
    if value != "*":
        return
    gone = (f"{kind}:", "agent:group:") if kind == "agent:id" else (f"{kind}:",)
    for key in [key for key in slot if key.startswith(gone) and "&" not in key]:
        del slot[key]


def _normal(resource: str) -> str:
    return "*:*:*" if resource == "*" else resource


def _split(resource: str) -> tuple[str, str]:
    """``a:b:value`` to kind ``a:b`` and value."""
    kind, _, value = resource.rpartition(":")
    return kind, value


def permitted(permissions: PermissionMap, mode: Mode, required: Requirement, inventory: ResourceInventory) -> Set[str]:
    """Which of the ids that the request names are allowed (rbac.md 7.3).

    A wildcard also covers ids that do not exist, so that the operation reports them; a narrow grant does not, so that
    existence is not leaked.
    """
    wanted = frozenset(required.ids or ())
    allowed = set[str]()
    for action in required.actions:
        if mode == "black":
            allowed = set(wanted)
        for kind, value, allow in permissions.entries(action, required.kind):
            touched = wanted if value == "*" else wanted & _members(kind, value, inventory)
            if allow:
                allowed |= touched
            else:
                allowed -= touched
    return allowed


def scope(permissions: PermissionMap, mode: Mode, required: Requirement, inventory: ResourceInventory) -> Scope:
    """All that is allowed, for a request that names no ids (rbac.md 7.3). Existing resources are not enumerated."""
    complement, ids = False, set[str]()
    for action in required.actions:
        if mode == "black":
            complement, ids = True, set()
        for kind, value, allow in permissions.entries(action, required.kind):
            if value == "*" and kind == required.kind:
                complement, ids = allow, set()
            elif allow is complement:
                # Nothing to remove and nothing to expand: the usual case of "all agents, all groups".
                ids -= _members(kind, value, inventory) if ids else EMPTY_SET
            else:
                ids |= _members(kind, value, inventory)
    return Scope(frozenset(ids), complement)


def _members(kind: str, value: str, inventory: ResourceInventory) -> Set[str]:
    return inventory.expand(kind, value) if kind == "agent:group" else {value}


def resolve(
    permissions: PermissionMap, mode: Mode, required: Requirement, inventory: ResourceInventory
) -> Collection[str]:
    """The allowed ids, enumerated: named ones if the request names any, else all existing ones."""
    if required.ids is not None:
        return permitted(permissions, mode, required, inventory)
    return scope(permissions, mode, required, inventory).among(inventory.expand(required.kind, "*"))
