"""Small STIX bundles."""

import json
from typing import Any

CREATED = "2020-01-02T03:04:05.678Z"


def stix(kind: str, number: int, name: str, external_id: str, **properties: Any) -> dict[str, Any]:
    """An object of STIX."""
    reference = {
        "source_name": "mitre-attack",
        "external_id": external_id,
        "url": f"https://attack.example/{external_id}",
    }
    return {
        "type": kind,
        "id": f"{kind}--{number:08d}-0000-4000-8000-000000000000",
        "name": name,
        "created": CREATED,
        "modified": "2021-01-02T03:04:05Z",
        "external_references": [reference],
        **properties,
    }


def relation(verb: str, source: dict[str, Any], target: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {
        "type": "relationship",
        "id": "relationship--1",
        "relationship_type": verb,
        "source_ref": source["id"],
        "target_ref": target["id"],
        **properties,
    }


TACTIC = stix("x-mitre-tactic", 1, "Credential Access", "TA0006", x_mitre_shortname="credential-access")
PHASES = [{"kill_chain_name": "mitre-attack", "phase_name": "credential-access"}]
TECHNIQUE = stix(
    "attack-pattern",
    2,
    "Brute Force",
    "T1110",
    kill_chain_phases=PHASES,
    description="Guessing.",
    x_mitre_version="2.8",
)
PART = stix("attack-pattern", 3, "Password Spraying", "T1110.003", kill_chain_phases=PHASES)
OLD = stix("attack-pattern", 4, "Guessing", "T0001", revoked=True)
GROUP = stix("intrusion-set", 5, "Example Bears", "G0001")
TOOL = stix("tool", 6, "hammer", "S0001")
MITIGATION = stix("course-of-action", 7, "Lock accounts", "M0001")
OTHER = {"type": "identity", "id": "identity--1", "created": CREATED, "modified": CREATED, "name": "x"}
RELATIONS = [
    relation("subtechnique-of", PART, TECHNIQUE),
    relation("revoked-by", OLD, TECHNIQUE),
    relation("mitigates", MITIGATION, TECHNIQUE),
    relation("uses", GROUP, TECHNIQUE),
    relation("uses", GROUP, TOOL),
    relation("uses", TOOL, PART),
    relation("uses", TOOL, TECHNIQUE, revoked=True),
    relation("attributed-to", GROUP, TOOL),
]
OBJECTS = [TACTIC, TECHNIQUE, PART, OLD, GROUP, TOOL, MITIGATION, OTHER]


def bundle(*objects: dict[str, Any], **members: Any) -> bytes:
    """The bytes of a bundle; without ``objects`` one with everything above."""
    return json.dumps({"type": "bundle", "objects": objects or [*OBJECTS, *RELATIONS], **members}).encode()
