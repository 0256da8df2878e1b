"""Parameters and items of operations on data sets, made from the declaration of the data set."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from sqlalchemy import Float, Integer

from secmon.cluster.parameters import (
    Common,
    Limit,
    Listing,
    Offset,
    SearchFor,
    Select,
    SortBy,
    text_format,
)
from secmon.common.query.columns import Column, Kind
from secmon.operations.agents.parameters import AgentId
from secmon.operations.inventory.data_sets import AGENT_ID, DataSet

Digits = Annotated[str, text_format("numbers", "[0-9]{1,18}")]
Count = Annotated[int, Meta(ge=0)]


class AgentSelection(Common, frozen=True, kw_only=True):
    """An agent, and the fields to return."""

    agent_id: AgentId
    select: Select = None


class AgentListing(Listing, frozen=True, kw_only=True):
    """An agent, and the page to return."""

    agent_id: AgentId


class AgentsListing(Common, frozen=True, kw_only=True):
    """Agents, and the page to return of the rows of all; without a list those of all that the caller may read."""

    agents_list: list[AgentId] | None = None
    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None


def with_filters(base: type[Struct], filters: Mapping[str, Any]) -> type[Struct]:
    """``base`` with a parameter for each filter: its name on the wire, and its type."""
    fields = [(_attribute(name), kind | None, msgspec.field(name=name, default=None)) for name, kind in filters.items()]
    return defstruct(f"Filtered{base.__name__}", fields, bases=(base,), frozen=True, kw_only=True)


def item_type(title: str, data_set: DataSet, **types: Any) -> type[Struct]:
    """The shape of an item: what it has not, or what was not selected, is left out.

    ``types``: those of fields that are not shown as they are stored. ``a.b`` is a member of the object ``a``, or
    where ``a`` would have no other member, of the item itself.
    """
    members: dict[str, Any] = {AGENT_ID: str} if data_set.shows_agent else {}
    objects: dict[str, dict[str, Any]] = {}
    for name, column in data_set.columns.items():
        prefix, _, last = name.partition(".")
        kind = types.get(name) or _json_type(column)
        if last:
            objects.setdefault(prefix, {})[last] = kind
        if not last or (data_set.nested is not None and prefix not in data_set.nested):
            members[name] = kind
    for prefix, parts in objects.items():
        if len(parts) > 1 or data_set.nested is None or prefix in data_set.nested:
            members[prefix] = partial_type(f"{title}{prefix.title().replace('_', '')}", parts)
    return partial_type(title, members)


def partial_type(name: str, members: Mapping[str, Any]) -> type[Struct]:
    """An object with these members, of which each may be missing."""
    fields = [
        (_attribute(each), kind | UnsetType, msgspec.field(name=each, default=UNSET)) for each, kind in members.items()
    ]
    return defstruct(name, fields, kw_only=True)


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _json_type(column: Column) -> Any:
    kind = column.expression.type
    if column.kind is Kind.DATE:
        return str
    return int if isinstance(kind, Integer) else float if isinstance(kind, Float) else str
