"""The items of ATT&CK as clients see them (analysis-api.md 8.2, 8.3), and the techniques for alerts."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from secmon.knowledge.attack.records import KINDS, OWN_SOURCE, AttackObject, Kind, Record, Relation, Release

Item = dict[str, Any]
_FRACTION = re.compile(r"(?:\.(\d{1,6})\d*)?Z$")


class AttackTechnique(NamedTuple):
    """A technique that is in use; ``tactics``: names by external id."""

    name: str
    tactics: Mapping[str, str]


class KnowledgeBase(NamedTuple):
    """All items, each list in the order of ids, and techniques by external id: not revoked, not deprecated."""

    items: Mapping[Kind, Sequence[Item]]
    references: Sequence[Item]
    metadata: Sequence[Item]
    techniques: Mapping[str, AttackTechnique]
    unused: Mapping[str, str]
    """Techniques that are revoked or deprecated: why, by external id."""


_RELATED: Mapping[tuple[Kind, str, Kind], tuple[str, str]] = {
    ("mitigation", "mitigates", "technique"): ("techniques", "mitigations"),
    ("software", "uses", "technique"): ("techniques", "software"),
    ("group", "uses", "technique"): ("techniques", "groups"),
    ("group", "uses", "software"): ("software", "groups"),
}
"""The members of the source and of the target that a relation fills."""
_MEMBERS: Mapping[Kind, tuple[str, ...]] = {
    "tactic": ("techniques",),
    "technique": ("tactics", "mitigations", "software", "groups"),
    "group": ("software", "techniques"),
    "software": ("groups", "techniques"),
    "mitigation": ("techniques",),
}


def build(records: Iterable[Record]) -> KnowledgeBase:
    """The knowledge base of ``records``."""
    release, objects, relations = Release("2.1"), dict[str, AttackObject](), list[Relation]()
    for record in records:
        match record:
            case Release():
                release = record
            case AttackObject():
                objects[record.id] = record
            case Relation():
                relations.append(record)
    items = {entry.id: _item(entry) for entry in sorted(objects.values(), key=lambda each: each.id)}
    _relate(items, objects, relations)
    tactics = {entry.short_name: entry for entry in objects.values() if KINDS[entry.type] == "tactic"}
    _add_phases(items, objects, tactics)
    by_kind: dict[Kind, list[Item]] = {kind: [] for kind in _MEMBERS}
    for each, item in items.items():
        by_kind[KINDS[objects[each].type]].append(item)
    techniques = [entry for entry in objects.values() if KINDS[entry.type] == "technique" and entry.external_id]
    return KnowledgeBase(
        items=by_kind,
        references=[item for entry in sorted(objects.values(), key=lambda one: one.id) for item in _references(entry)],
        metadata=[{"key": "db_version", "value": "1"}, {"key": "mitre_version", "value": release.spec_version}],
        techniques={str(each.external_id): _technique(each, tactics) for each in techniques if _in_use(each)},
        unused={
            str(each.external_id): "revoked" if each.revoked else "deprecated"
            for each in techniques
            if not _in_use(each)
        },
    )


def _in_use(entry: AttackObject) -> bool:
    return not (entry.revoked or entry.deprecated)


def _technique(entry: AttackObject, tactics: Mapping[str | None, AttackObject]) -> AttackTechnique:
    found = [tactics[phase] for phase in entry.phases if phase in tactics]
    return AttackTechnique(entry.name, {str(tactic.external_id): tactic.name for tactic in found})


def _item(entry: AttackObject) -> Item:
    """Columns that are null are left out; booleans are 0 and 1."""
    kind = KINDS[entry.type]
    item: Item = {
        "id": entry.id,
        "name": entry.name,
        "description": entry.description,
        "created_time": _time(entry.created),
        "modified_time": _time(entry.modified),
        "external_id": entry.external_id,
        "url": entry.url,
        "source": OWN_SOURCE if entry.external_id else None,
    }
    if kind == "tactic":
        item["short_name"] = entry.short_name
    else:
        item |= {"mitre_version": entry.version, "deprecated": int(entry.deprecated)}
    if kind == "technique":
        item |= {
            "mitre_detection": entry.detection,
            "network_requirements": int(entry.network_requirements),
            "remote_support": int(entry.remote_support),
        }
    item = {name: value for name, value in item.items() if value is not None}
    item |= {name: [] for name in _MEMBERS[kind]}
    item["references"] = [
        {
            name: value
            for name in ("url", "description", "source", "external_id")
            if (value := getattr(each, name)) is not None
        }
        for each in entry.references
    ]
    return item


def _relate(items: Mapping[str, Item], objects: Mapping[str, AttackObject], relations: Iterable[Relation]) -> None:
    members: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in relations:
        source, target = objects.get(each.source), objects.get(each.target)
        if source is None or target is None:
            continue
        if each.verb in ("revoked-by", "subtechnique-of"):
            items[source.id]["revoked_by" if each.verb == "revoked-by" else "subtechnique_of"] = target.id
            continue
        names = _RELATED.get((KINDS[source.type], each.verb, KINDS[target.type]))
        if names is not None:
            members[source.id, names[0]].add(target.id)
            members[target.id, names[1]].add(source.id)
    for (owner, name), ids in members.items():
        items[owner][name] = sorted(ids)


def _add_phases(
    items: Mapping[str, Item], objects: Mapping[str, AttackObject], tactics: Mapping[str | None, AttackObject]
) -> None:
    for each, item in items.items():
        for phase in objects[each].phases:
            if (tactic := tactics.get(phase)) is not None:
                item["tactics"].append(tactic.id)
                items[tactic.id]["techniques"].append(each)


def _references(entry: AttackObject) -> Iterable[Item]:
    own = {"id": entry.id, "type": KINDS[entry.type]}
    if entry.url:
        found = {"source": OWN_SOURCE, "external_id": entry.external_id, "url": entry.url}
        yield own | {name: value for name, value in found.items() if value is not None}
    for each in entry.references:
        found = {name: getattr(each, name) for name in ("source", "external_id", "url", "description")}
        yield own | {name: value for name, value in found.items() if value is not None}


def _time(text: str) -> str:
    """``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
    return _FRACTION.sub(lambda found: f".{(found[1] or '').ljust(6, '0')}Z", text)
