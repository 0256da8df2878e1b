"""Rules as the API shows them (analysis-api.md 2.1 to 2.3): the content of the file, loaded by the engine or not."""

from collections.abc import Iterator, Mapping
from typing import Any

from secmon.cluster.node import RulesetFile
from secmon.engine.ruleset.ruleset_xml import Element, parse_payload

Item = dict[str, Any]

PATTERNS = frozenset(
    ("regex", "match", "action", "extra_data", "hostname", "id", "location", "program_name", "protocol", "user", "url",
     "srcport", "dstport", "status", "system_name", "srcgeoip", "dstgeoip")
)  # fmt: skip
_GROUPS = frozenset(("any", "all", "none"))
NAMED = frozenset(("list", "info"))
REQUIREMENTS = ("pci_dss", "gdpr", "hipaa", "nist_800_53", "gpg13", "tsc", "mitre")
"""In the order in which they are distinguished."""
_SHOWN = ("pci_dss", "gpg13", "gdpr", "hipaa", "nist_800_53", "tsc", "mitre")
"""In the order in which items have them."""
_ELSEWHERE = frozenset(("group", "mitre", "description"))

Variables = Mapping[str, str]


def text_of(data: bytes) -> str:
    """Bytes that are not UTF-8 become ``\\xff``."""
    return data.decode("utf-8", "backslashreplace")


def rule_items(file: RulesetFile, data: bytes) -> list[Item]:
    """The rules of a file in their order; elements without a numeric id or level are skipped. Raises XmlError."""
    roots = parse_payload(data)
    variables = dict(_variables(roots))
    return [
        item
        for group in roots
        if group.key == "group"
        for rule in group.children
        if rule.key == "rule" and (item := _item(file, group, rule, variables)) is not None
    ]


def _variables(elements: list[Element]) -> Iterator[tuple[str, str]]:
    for element in elements:
        if element.key == "var":
            yield text_of(element.attributes.get("name", b"")).lower(), text_of(element.content)
        elif element.key == "group":
            yield from _variables(element.children)


def _resolved(text: str, variables: Variables) -> str:
    """The value of the variable if ``text`` is only its name."""
    return variables.get(text[1:].lower(), text) if text.startswith("$") else text


def _item(file: RulesetFile, group: Element, rule: Element, variables: Variables) -> Item | None:
    number = _number(rule.attributes.get("id", b""), variables)
    level = _number(rule.attributes.get("level", b""), variables)
    if number is None or level is None:
        return None
    tags = _tags(group, rule)
    return {
        "filename": file.filename,
        "relative_dirname": file.relative_dirname,
        "id": number,
        "level": level,
        "status": file.status,
        "details": _details(rule, variables),
        **{name: tags[name] for name in _SHOWN},
        "groups": tags["groups"],
        "description": "".join(text_of(one.content) for one in rule.children if one.key == "description"),
    }


def _number(data: bytes, variables: Variables) -> int | None:
    text = _resolved(text_of(data), variables).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _details(rule: Element, variables: Variables) -> Item:
    details: Item = {name: text_of(value) for name, value in rule.attributes.items() if name not in ("id", "level")}
    for child in rule.children:
        if child.key in _ELSEWHERE:
            continue
        if child.key in _GROUPS:
            _add(details, child.key, _details(child, variables))
            continue
        text = text_of(child.content)
        attributes = {name: text_of(value) for name, value in child.attributes.items()}
        if child.key == "field":
            _add_pattern(details, attributes.pop("name", "field"), _resolved(text, variables), attributes)
        elif child.key in PATTERNS:
            _add_pattern(details, child.key, _resolved(text, variables), attributes)
        elif child.key in NAMED:
            _add(details, child.key, {"name": text, **attributes})
        else:
            _add(details, child.key, text)
    return details


def _add_pattern(details: Item, name: str, pattern: str, attributes: Mapping[str, str]) -> None:
    """Patterns of one name are joined; the attributes of the last one count."""
    before = details.get(name)
    if isinstance(before, dict) and "pattern" in before:
        before |= {**attributes, "pattern": before["pattern"] + pattern}
    else:
        details[name] = {"pattern": pattern, **attributes}


def _add(details: Item, name: str, value: Any) -> None:
    """Repeated elements become arrays."""
    if name not in details:
        details[name] = value
    elif isinstance(details[name], list):
        details[name].append(value)
    else:
        details[name] = [details[name], value]


def _tags(group: Element, rule: Element) -> dict[str, list[str]]:
    """Groups and requirements by name."""
    tags: dict[str, list[str]] = {name: [] for name in ("groups", *_SHOWN)}
    for text in _tag_texts(group, rule):
        tag = text.replace("\n", "").strip()
        found = next((name for name in REQUIREMENTS if tag.startswith(name)), None)
        if found is None:
            if tag:
                tags["groups"].append(tag)
            continue
        value = tag[len(found) :].removeprefix("_")
        if value not in tags[found]:
            tags[found].append(value)
    return tags


def _tag_texts(group: Element, rule: Element) -> Iterator[str]:
    for child in rule.children:
        if child.key == "group":
            yield from text_of(child.content).split(",")
    for child in rule.children:
        if child.key == "mitre":
            yield from (f"mitre_{text_of(one.content)}" for one in child.children)
    yield from text_of(group.attributes.get("name", b"")).split(",")
