"""Authorization of one operation; raises 4000 (rbac.md 7.4 and 7.5).

An operation declares :class:`Require` objects; the executing node checks them, in declaration order, before the
operation's function runs.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, Mode
from secmon.security.rbac.evaluate import EMPTY, RESOURCELESS, PermissionMap, Requirement, Scope, permitted, scope
from secmon.security.rbac.inventory import CachedInventory, ResourceInventory
from secmon.security.store.view import SecurityView

DenyMode = Literal["whole", "each", "restrict", "item"]

_INTEGER_KINDS = frozenset({"user:id", "role:id", "policy:id", "rule:id"})
_ALL_IDS = frozenset({"all", "*"})


class Require(msgspec.Struct, frozen=True):
    """What an operation needs of its caller.

    ``resource`` is a kind. ``param`` names the parameter that holds the ids; without one the requirement is static:
    ``*:*`` itself or, for kind ``node:id``, the node that executes. ``mode`` is the effect of a denial (rbac.md 7.4):

    - ``whole``: 403, nothing runs
    - ``each``: a list is cut to what is permitted, the rest become failed items, none permitted is 403; without a
      list only permitted resources are seen, with no error even when there are none
    - ``restrict``: only permitted resources are seen, never an error
    - ``item``: denied ids become failed items, never a 403; the operation asks for the check itself

    ``also`` are alternatives to a static requirement, static themselves: in white mode one granted requirement is
    enough, in black mode a denial of any of them denies.
    """

    action: str
    resource: str = RESOURCELESS
    param: str | None = None
    mode: DenyMode = "whole"
    also: tuple["Require", ...] = ()

    @property
    def static(self) -> bool:
        """Whether the resource is known without looking at the request."""
        return self.param is None and self.mode == "whole"


class Grant(msgspec.Struct, frozen=True):
    """The permitted resources.

    With ids named (``explicit``): ``ids`` are the permitted ones in request order, ``denied`` the others. Otherwise
    ``scope`` says what may be seen.
    """

    kind: str
    explicit: bool
    ids: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    scope: Scope = Scope()

    @property
    def error(self) -> SecmonError | None:
        """The failed items of the denied ids, if any."""
        return _denial(self.kind, self.denied) if self.denied else None

    def select(self, existing: Iterable[str]) -> list[str]:
        """The ids to work on: the named permitted ones, else those of ``existing`` that may be seen."""
        return list(self.ids) if self.explicit else [item for item in existing if item in self.scope]


class Authorizer:
    """Checks of one call: an identity against the security state, on ``node``, over its inventory."""

    def __init__(self, identity: Identity, view: SecurityView, inventory: ResourceInventory, *, node: str) -> None:
        self._permissions: PermissionMap = EMPTY if identity.local else view.permissions(identity.roles)
        self._mode: Mode = "black" if identity.local else identity.mode
        self._inventory = CachedInventory(inventory)
        self._node = node

    def check(self, require: Require, ids: Sequence[str] | None = None) -> Grant:
        """Authorize ``require`` for the ids that the request names; ``None`` when it names none.

        Raises 4000 with the kind as its text, and the denied ids.
        """
        if ids is None:
            return self._static(require) if require.static else self._unnamed(require)
        named = tuple(dict.fromkeys(ids))
        allowed = permitted(self._permissions, self._mode, _requirement(require, named), self._inventory)
        grant = Grant(
            kind=require.resource,
            explicit=True,
            ids=tuple(item for item in ids if item in allowed),
            denied=tuple(item for item in named if item not in allowed),
        )
        return _apply_mode(require.mode, grant)

    def _static(self, require: Require) -> Grant:
        verdicts = (self._holds(one) for one in (require, *require.also))
        granted = all(verdicts) if self._mode == "black" else any(verdicts)
        if not granted:
            raise _denial(require.resource, self._target(require))
        return Grant(kind=require.resource, explicit=True, ids=self._target(require))

    def _holds(self, require: Require) -> bool:
        required = _requirement(require, self._target(require))
        return bool(permitted(self._permissions, self._mode, required, self._inventory))

    def _target(self, require: Require) -> tuple[str, ...]:
        return (self._node,) if require.resource == "node:id" else ("*",)

    def _unnamed(self, require: Require) -> Grant:
        seen = scope(self._permissions, self._mode, _requirement(require, None), self._inventory)
        return Grant(kind=require.resource, explicit=False, scope=seen)


def check(
    identity: Identity,
    view: SecurityView,
    require: Require,
    ids: Sequence[str] | None,
    inventory: ResourceInventory,
    *,
    node: str,
) -> Grant:
    """One check on its own; a call with several uses one :class:`Authorizer`, which expands each resource once."""
    return Authorizer(identity, view, inventory, node=node).check(require, ids)


def named_ids(value: object) -> tuple[str, ...] | None:
    """Ids as a request gave them; ``None`` where absent, ``all`` or ``*``, which all mean no list (rbac.md 7.2)."""
    if value is None:
        return None
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    ids = tuple(str(item) for item in items)
    return None if _ALL_IDS.intersection(ids) else ids


def _requirement(require: Require, ids: tuple[str, ...] | None) -> Requirement:
    return Requirement((require.action,), require.resource, ids)


def _apply_mode(mode: DenyMode, grant: Grant) -> Grant:
    refused = {"whole": bool(grant.denied), "each": bool(grant.denied) and not grant.ids}
    if refused.get(mode, False):
        raise _denial(grant.kind, grant.denied)
    if mode == "restrict" and grant.denied:
        return Grant(kind=grant.kind, explicit=True, ids=grant.ids)
    return grant


def _denial(kind: str, ids: tuple[str, ...]) -> SecmonError:
    items: tuple[str | int, ...] = tuple(map(int, ids)) if kind in _INTEGER_KINDS else ids
    return SecmonError(4000, f"Resource type: {kind}", ids=() if kind == RESOURCELESS else items)
