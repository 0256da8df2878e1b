"""Decoders as the API shows them (analysis-api.md 3.1)."""

from typing import Any

from secmon.cluster.node import RulesetFile
from secmon.engine.catalogue.rule_items import text_of
from secmon.engine.ruleset.ruleset_xml import Element, parse_payload

_PATTERNS = frozenset(("program_name", "prematch", "regex"))


def decoder_items(file: RulesetFile, data: bytes) -> list[dict[str, Any]]:
    """The decoders of a file; ``position`` counts them from 0. Raises XmlError."""
    decoders = [element for element in parse_payload(data) if element.key == "decoder"]
    return [
        {
            "filename": file.filename,
            "relative_dirname": file.relative_dirname,
            "status": file.status,
            "name": text_of(element.attributes.get("name", b"")),
            "position": position,
            "details": _details(element),
        }
        for position, element in enumerate(decoders)
    ]


def _details(decoder: Element) -> dict[str, Any]:
    details: dict[str, Any] = {name: text_of(text) for name, text in decoder.attributes.items() if name != "name"}
    for child in decoder.children:
        text = text_of(child.content) or None
        if child.key not in _PATTERNS:
            details[child.key] = text
            continue
        attributes = {name: text_of(value) for name, value in child.attributes.items()}
        before = details.get(child.key)
        if isinstance(before, dict):
            pattern = (before["pattern"] or "") + (text or "")
            before |= {**attributes, "pattern": pattern or None}
        else:
            details[child.key] = {"pattern": text, **attributes}
    return details
