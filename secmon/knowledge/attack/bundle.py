"""Reading the public STIX bundle of ATT&CK, 2.0 and 2.1 (analysis-api.md 8.4)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from secmon.knowledge.attack.records import (
    KINDS,
    OWN_SOURCE,
    AttackError,
    AttackObject,
    Record,
    Reference,
    Relation,
    Release,
)

VERBS = frozenset({"uses", "mitigates", "revoked-by", "subtechnique-of"})
_MAX_TEXT = 1 << 18
"""Characters of a description; longer ones are cut."""


class _Reference(msgspec.Struct):
    source_name: str
    url: str | None = None
    external_id: str | None = None
    description: str | None = None


class _Phase(msgspec.Struct):
    phase_name: str


class _Object(msgspec.Struct, rename={"version": "x_mitre_version"}):
    """A STIX object: the properties that are used."""

    type: str
    id: str
    created: str
    modified: str
    name: str = ""
    description: str | None = None
    revoked: bool = False
    x_mitre_deprecated: bool = False
    version: str | None = None
    x_mitre_shortname: str | None = None
    x_mitre_detection: str | None = None
    x_mitre_network_requirements: bool = False
    x_mitre_remote_support: bool = False
    kill_chain_phases: list[_Phase] = []
    external_references: list[_Reference] = []


class _Relationship(msgspec.Struct):
    relationship_type: str
    source_ref: str
    target_ref: str
    revoked: bool = False
    x_mitre_deprecated: bool = False


class _Head(msgspec.Struct):
    type: str
    x_mitre_version: str | None = None


class _Bundle(msgspec.Struct):
    type: str
    objects: list[msgspec.Raw]
    spec_version: str | None = None


def read_bundle(content: bytes) -> Iterator[Record]:
    """The records of a bundle, checked as a whole before the first one is returned. Raises AttackError."""
    try:
        bundle = msgspec.json.decode(content, type=_Bundle)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AttackError(f"it is not a STIX bundle: {error}") from None
    if bundle.type != "bundle":
        raise AttackError(f"it is not a STIX bundle: its type is {bundle.type[:40]!r}")
    objects: dict[str, AttackObject] = {}
    relations: list[Relation] = []
    version = ""
    for number, raw in enumerate(bundle.objects):
        try:
            head = msgspec.json.decode(raw, type=_Head)
            if head.type == "x-mitre-collection":
                version = head.x_mitre_version or ""
            elif head.type == "relationship":
                relations += _relation(msgspec.json.decode(raw, type=_Relationship))
            elif head.type in KINDS:
                entry = _object(msgspec.json.decode(raw, type=_Object))
                if objects.setdefault(entry.id, entry) is not entry:
                    raise AttackError(f"{entry.id} is there twice")
        except msgspec.DecodeError as error:
            raise AttackError(f"object {number} of the bundle: {error}") from None
    if not any(KINDS[entry.type] == "tactic" for entry in objects.values()):
        raise AttackError("it has no tactics: it is no bundle of ATT&CK")
    known = [each for each in relations if each.source in objects and each.target in objects]
    _check_cycles(known)
    return iter((Release(bundle.spec_version or "2.1", version), *objects.values(), *known))


def _relation(found: _Relationship) -> Sequence[Relation]:
    if found.relationship_type not in VERBS or found.revoked or found.x_mitre_deprecated:
        return ()
    return (Relation(found.relationship_type, found.source_ref, found.target_ref),)


def _object(found: _Object) -> AttackObject:
    if not found.name or not found.id.startswith(f"{found.type}--"):
        raise AttackError(f"{found.id[:80]!r} has no name, or the id of another type")
    own = next((each for each in found.external_references if _is_own(each)), None)
    return AttackObject(
        type=found.type,
        id=found.id,
        name=found.name,
        created=found.created,
        modified=found.modified,
        external_id=own.external_id if own else None,
        url=own.url if own else None,
        description=_cut(found.description),
        revoked=found.revoked,
        deprecated=found.x_mitre_deprecated,
        version=found.version,
        short_name=found.x_mitre_shortname,
        phases=tuple(phase.phase_name for phase in found.kill_chain_phases),
        detection=_cut(found.x_mitre_detection),
        network_requirements=found.x_mitre_network_requirements,
        remote_support=found.x_mitre_remote_support,
        references=tuple(
            Reference(each.source_name, each.url, each.external_id, _cut(each.description))
            for each in found.external_references
            if each is not own and each.url
        ),
    )


def _is_own(reference: _Reference) -> bool:
    return reference.source_name == OWN_SOURCE and bool(reference.external_id)


def _cut(text: str | None) -> str | None:
    return text if text is None else text[:_MAX_TEXT]


def _check_cycles(relations: Sequence[Relation]) -> None:
    """Raises AttackError when techniques are part of each other, or replaced by each other."""
    for verb in ("subtechnique-of", "revoked-by"):
        parents: Mapping[str, Any] = {each.source: each.target for each in relations if each.verb == verb}
        for start in parents:
            seen, current = {start}, parents.get(start)
            while current is not None:
                if current in seen:
                    raise AttackError(f"{start} is related to itself ({verb})")
                seen.add(current)
                current = parents.get(current)
