"""Events of vulnerabilities, as rules see them (agent-data.md 9.8)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from secmon.inventory.decoded_event import DecodedEvent, encode_event
from secmon.inventory.vulnerabilities.matching import Flaw

LOCATION = "vulnerability-detector"
DECODER = "json"
_MOST_REFERENCES = 5
_MOST_TEXT = 1000
"""So that an event is shorter than the 65536 bytes that a journal takes."""


class Reporter(NamedTuple):
    """The agent that an event is of."""

    agent: int
    name: str
    address: str


def finding_event(of: Reporter, row: Mapping[str, Any], flaw: Flaw | None = None) -> bytes:
    """The event of a row of ``vulnerabilities``: new because of ``flaw``, or without one solved."""
    affected = row["title"] if flaw else f"{row['cve']} affecting {row['name']} was solved"
    scores = {
        name: {"base_score": f"{row[column]:.1f}"}
        for name, column in (("cvss2", "cvss2_score"), ("cvss3", "cvss3_score"))
        if row[column]
    }
    found = {
        "cve": row["cve"],
        "title": _cut(affected),
        "rationale": _cut(flaw.summary) if flaw else "",
        "severity": row["severity"],
        "status": "Active" if flaw else "Solved",
        "type": row["type"],
        "published": row["published"],
        "updated": row["updated"],
        "package": {
            "name": _cut(row["name"]),
            "version": _cut(row["version"]),
            "architecture": _cut(row["architecture"]),
            "condition": _cut(row["condition"]),
        },
        "cvss": scores,
        "advisories_ids": [flaw.advisory] if flaw else [],
        "references": msgspec.json.decode(row["external_references"])[:_MOST_REFERENCES],
    }
    return _event(of, {"vulnerability": found})


def first_scan_event(of: Reporter, severities: Counter[str]) -> bytes:
    """One event instead of one for each vulnerability that a host's first scan has found."""
    counts = {name.lower(): severities[name] for name in ("Critical", "High", "Medium", "Low", "Untriaged")}
    return _event(of, {"vulnerability_scan": {"type": "first", "found": severities.total(), **counts}})


def _event(of: Reporter, document: Mapping[str, Any]) -> bytes:
    event = DecodedEvent(
        agent=of.agent,
        name=of.name,
        location=f"({of.name}) {of.address}->{LOCATION}",
        decoder=DECODER,
        fields=list(_fields("", document)),
        log=msgspec.json.encode(document).decode(),
    )
    return encode_event(event)


def _fields(prefix: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values by the names on the way to them; an array is its JSON, empty ones are left out."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _fields(f"{prefix}{name}.", value)
        elif isinstance(value, list) and value:
            yield f"{prefix}{name}", msgspec.json.encode(value).decode()
        elif value not in ("", []):
            yield f"{prefix}{name}", str(value)


def _cut(text: str) -> str:
    return text[:_MOST_TEXT]
