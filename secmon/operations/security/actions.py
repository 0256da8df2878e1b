"""``/security/actions`` and ``/security/resources``: names for policies. Open to all authenticated users."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.cluster.catalogue import CATALOGUE, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Pretty
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.security.rbac.action_table import Action, load_actions

ResourceKind = Literal[
    "*:*",
    "agent:group",
    "agent:id",
    "group:id",
    "node:id",
    "decoder:file",
    "list:file",
    "rule:file",
    "policy:id",
    "role:id",
    "rule:id",
    "user:id",
]


class Example(Struct):
    """A policy that grants the action."""

    actions: list[str]
    resources: list[str]
    effect: Literal["allow", "deny"]


class ActionInfo(Struct):
    """An action."""

    description: str
    resources: list[str]
    example: Example
    related_endpoints: list[str]


class ResourceInfo(Struct):
    """A kind of resource."""

    description: str


class ActionsQuery(Pretty, frozen=True, kw_only=True):
    """Query parameters of GET /security/actions."""

    endpoint: Annotated[str | None, Meta(description="Only the actions of this endpoint, as `METHOD /path`.")] = None


class ResourcesQuery(Pretty, frozen=True, kw_only=True):
    """Query parameters of GET /security/resources."""

    resource: Annotated[ResourceKind | None, Meta(description="Only this kind of resource.")] = None


@operation("GET", "/security/actions", params=ActionsQuery, open_to_all=True, data=dict[str, ActionInfo])
async def read_actions(ctx: Context, params: ActionsQuery) -> Plain:
    """List the actions that policies may name, with the endpoints that need them."""
    wanted = params.endpoint
    if wanted is not None and CATALOGUE.get(wanted) is None:
        raise SecmonError(4020, f"{wanted[:100]!r}; endpoints: {', '.join(sorted(one.name for one in CATALOGUE))}")
    shown: dict[str, dict[str, Any]] = {}
    for name, action in load_actions().actions.items():
        endpoints = related_endpoints(name)
        if wanted is None or wanted in endpoints:
            shown[name] = _describe(name, action, endpoints if wanted is None else [wanted])
    return Plain(data=shown)


@operation("GET", "/security/resources", params=ResourcesQuery, open_to_all=True, data=dict[str, ResourceInfo])
async def read_resources(ctx: Context, params: ResourcesQuery) -> Plain:
    """List the kinds of resources that policies may name."""
    kinds = load_actions().resources
    return Plain(
        data={
            name: {"description": kind.description}
            for name, kind in kinds.items()
            if params.resource in (None, name)
        }
    )  # fmt: skip


def related_endpoints(action: str) -> list[str]:
    """Endpoints of this version that require ``action``: as the data file lists them, then others that declare it."""
    listed = [one for one in load_actions().actions[action].endpoints if CATALOGUE.get(one) is not None]
    declared = [one.name for one in CATALOGUE if any(require.action == action for require in one.require)]
    return list(dict.fromkeys([*listed, *declared]))


def _describe(name: str, action: Action, endpoints: list[str]) -> dict[str, Any]:
    kinds = load_actions().resources
    return {
        "description": action.description,
        "resources": list(action.resources),
        "example": {
            "actions": [name],
            "resources": [kinds[kind].example for kind in action.resources],
            "effect": "allow",
        },
        "related_endpoints": endpoints,
    }
