"""``/mitre``: tactics, techniques, groups, software, mitigations and references of ATT&CK (analysis-api.md 8)."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Limit, Listing, Offset, Q, SearchFor, Select, SortBy
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Sort
from secmon.knowledge.attack.knowledge_base import Item, KnowledgeBase
from secmon.knowledge.attack.records import AttackError, Kind
from secmon.security.rbac.authorization import Require

READ = (Require("mitre:read"),)
BY_ID = Sort(("id",))
Ids = Annotated[list[str] | None, Meta(description="Ids of STIX, such as `attack-pattern--...`.")]
Text = str | UnsetType
Flag = int | UnsetType
Related = list[str] | UnsetType


class AttackReference(Struct):
    """An external reference of an object."""

    source: str
    url: Text = UNSET
    description: Text = UNSET
    external_id: Text = UNSET


class _Described(Struct, kw_only=True):
    """What all objects have; what is not known, or not selected, is left out."""

    id: str
    name: Text = UNSET
    description: Text = UNSET
    created_time: Text = UNSET
    modified_time: Text = UNSET
    url: Text = UNSET
    source: Text = UNSET
    external_id: Text = UNSET
    references: list[AttackReference] | UnsetType = UNSET


class _Versioned(_Described, kw_only=True):
    mitre_version: Text = UNSET
    revoked_by: Text = UNSET
    deprecated: Flag = UNSET


class Tactic(_Described, kw_only=True):
    """A goal of attackers."""

    short_name: Text = UNSET
    techniques: Related = UNSET


class Technique(_Versioned, kw_only=True):
    """A way to reach a goal."""

    mitre_detection: Text = UNSET
    network_requirements: Flag = UNSET
    remote_support: Flag = UNSET
    subtechnique_of: Text = UNSET
    tactics: Related = UNSET
    mitigations: Related = UNSET
    software: Related = UNSET
    groups: Related = UNSET


class Group(_Versioned, kw_only=True):
    """A group of attackers."""

    software: Related = UNSET
    techniques: Related = UNSET


class Software(_Versioned, kw_only=True):
    """A tool or malware of attackers."""

    groups: Related = UNSET
    techniques: Related = UNSET


class Mitigation(_Versioned, kw_only=True):
    """What prevents techniques."""

    techniques: Related = UNSET


class ObjectReference(Struct):
    """An external reference; ``id`` is that of the object."""

    id: str
    source: Text = UNSET
    external_id: Text = UNSET
    url: Text = UNSET
    description: Text = UNSET
    type: Text = UNSET


class Metadata(Struct):
    """A fact about the knowledge base."""

    key: str
    value: str


class TacticsQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/tactics."""

    tactic_ids: Ids = None


class TechniquesQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/techniques."""

    technique_ids: Ids = None


class GroupsQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/groups."""

    group_ids: Ids = None


class SoftwareQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/software."""

    software_ids: Ids = None


class MitigationsQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/mitigations."""

    mitigation_ids: Ids = None


class ReferencesQuery(Common, frozen=True, kw_only=True):
    """Query parameters of GET /mitre/references."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    reference_ids: Ids = None


def _fields(item: type[Struct]) -> Fields:
    names = item.__struct_fields__
    return Fields(engine="list", select=names, sort=names, required=("id",))


def _messages(what: str) -> Messages:
    return Messages(all=f"The {what} were read", none=f"No {what} were found")


async def knowledge(ctx: Context) -> KnowledgeBase:
    """The knowledge base of this node. Raises 1005."""
    try:
        return await asyncio.to_thread(ctx.node.attack.current)
    except AttackError as error:
        raise SecmonError(1005, str(error)) from error


async def _listed(ctx: Context, kind: Kind, ids: Sequence[str] | None) -> Outcome:
    return _selected((await knowledge(ctx)).items[kind], ids)


def _selected(items: Sequence[Item], ids: Sequence[str] | None) -> Outcome:
    """The items with ``ids``; unknown ids give nothing."""
    wanted = None if ids is None else set(ids)
    return Outcome(items=[item for item in items if wanted is None or item["id"] in wanted])


@operation(
    "GET", "/mitre/tactics", params=TacticsQuery, require=READ, item=Tactic, fields=_fields(Tactic),
    default_sort=BY_ID, messages=_messages("tactics"),
)  # fmt: skip
async def list_tactics(ctx: Context, params: TacticsQuery) -> Outcome:
    """Tactics of MITRE ATT&CK."""
    return await _listed(ctx, "tactic", params.tactic_ids)


@operation(
    "GET", "/mitre/techniques", params=TechniquesQuery, require=READ, item=Technique, fields=_fields(Technique),
    default_sort=BY_ID, messages=_messages("techniques"),
)  # fmt: skip
async def list_techniques(ctx: Context, params: TechniquesQuery) -> Outcome:
    """Techniques of MITRE ATT&CK."""
    return await _listed(ctx, "technique", params.technique_ids)


@operation(
    "GET", "/mitre/groups", params=GroupsQuery, require=READ, item=Group, fields=_fields(Group),
    default_sort=BY_ID, messages=_messages("groups"),
)  # fmt: skip
async def list_groups(ctx: Context, params: GroupsQuery) -> Outcome:
    """Groups of attackers of MITRE ATT&CK."""
    return await _listed(ctx, "group", params.group_ids)


@operation(
    "GET", "/mitre/software", params=SoftwareQuery, require=READ, item=Software, fields=_fields(Software),
    default_sort=BY_ID, messages=_messages("software"),
)  # fmt: skip
async def list_software(ctx: Context, params: SoftwareQuery) -> Outcome:
    """Software of MITRE ATT&CK."""
    return await _listed(ctx, "software", params.software_ids)


@operation(
    "GET", "/mitre/mitigations", params=MitigationsQuery, require=READ, item=Mitigation, fields=_fields(Mitigation),
    default_sort=BY_ID, messages=_messages("mitigations"),
)  # fmt: skip
async def list_mitigations(ctx: Context, params: MitigationsQuery) -> Outcome:
    """Mitigations of MITRE ATT&CK."""
    return await _listed(ctx, "mitigation", params.mitigation_ids)


@operation(
    "GET", "/mitre/references", params=ReferencesQuery, require=READ, item=ObjectReference,
    fields=_fields(ObjectReference), default_sort=BY_ID, messages=_messages("references"),
)  # fmt: skip
async def list_references(ctx: Context, params: ReferencesQuery) -> Outcome:
    """References of the objects of MITRE ATT&CK."""
    return _selected((await knowledge(ctx)).references, params.reference_ids)


@operation("GET", "/mitre/metadata", params=Common, require=READ, item=Metadata, messages=_messages("metadata"))
async def read_metadata(ctx: Context, params: Common) -> Outcome:
    """Versions of the knowledge base."""
    return Outcome(items=list((await knowledge(ctx)).metadata))
