"""The inventory of existing resources, as the evaluation of permissions sees them."""

from collections.abc import Set
from typing import Protocol

EMPTY_SET: Set[str] = frozenset()


class ResourceInventory(Protocol):
    """Expands a resource to the ids that exist now (table in rbac.md 7.3).

    ``value`` is ``*`` or, for kind ``agent:group`` only, a group name:

    - ``agent:id`` ``*``: zero-padded ids of the key file, and ``000``
    - ``agent:group`` ``*``: agents that belong to at least one group; a name: its members; unknown name: empty
    - ``group:id``, ``node:id``, ``rule:file``, ``decoder:file``, ``list:file`` ``*``: names
    - ``user:id``, ``role:id``, ``policy:id``, ``rule:id`` ``*``: ids as text
    - any other kind: empty

    Each pair is expanded at most once per request, and only when the answer depends on it.
    """

    def expand(self, kind: str, value: str) -> Set[str]: ...


class CachedInventory:
    """Caches the expansions of an inventory for one request."""

    def __init__(self, inventory: ResourceInventory) -> None:
        self._inventory = inventory
        self._known: dict[tuple[str, str], Set[str]] = {}

    def expand(self, kind: str, value: str) -> Set[str]:
        key = (kind, value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._inventory.expand(kind, value)
        return found
