"""The Windows event channel: XML in JSON becomes JSON, and that fields (ruleset.md 5.9).

Of a name that occurs twice the first value counts, so that a later part of an event cannot change an earlier one.
"""

import json
import re
from typing import Any, NamedTuple

from secmon.engine.decoders.audit_policy import CATEGORIES, CHANGES, SUBCATEGORIES
from secmon.engine.decoders.decoder import Decoder
from secmon.engine.decoders.json_fields import flatten
from secmon.engine.decoders.json_text import read_object, to_bytes
from secmon.engine.event import Event
from secmon.engine.ruleset.ruleset_xml import Element, parse_beginning

NAME = "windows_eventchannel"
_SEVERITIES = {"1": "CRITICAL", "2": "ERROR", "3": "WARNING", "4": "INFORMATION", "5": "VERBOSE"}
_AUDIT_FAILURE, _AUDIT_SUCCESS = 0x10000000000000, 0x20000000000000
_ESCAPES = {code: json.dumps(chr(code))[1:-1] for code in (*range(0x20), ord('"'))}
"""JSON escapes of control characters and quotes; backslashes are escaped before."""
_ESCAPED = re.compile(r'[\x00-\x1f"]')
_ESCAPE = re.compile(rb"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)
_CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_ENTITY = re.compile(rb"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));")
_ENTITIES = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NAMED = {
    "provider": {"Name": "providerName", "Guid": "providerGuid", "EventSourceName": "eventSourceName"},
    "timecreated": {"SystemTime": "systemTime"},
    "execution": {"ProcessID": "processID", "ThreadID": "threadID"},
}
"""Names of the attributes of elements below ``System``."""
_NOTHING = frozenset(("", "(NULL)", "-"))


class Converted(NamedTuple):
    """``{"win": {...}}`` of an event; ``whole``: nothing of the event was cut."""

    document: dict[str, Any]
    whole: bool


def decode_eventchannel(event: Event, decoder: Decoder) -> bool:
    """Replace log and full log by the JSON that rules are written for, and extract its fields.

    False for an event of another form, which stays unchanged. An event that was cut or is not valid XML keeps its full
    log; rules see the part before the fault.
    """
    found = convert(event.full_log)
    if found is None:
        return False
    document = found.document
    event.log = text = to_bytes(_encode(document))
    if found.whole:
        event.full_log = text
    event.size = len(text)
    event.decoder, event.category = decoder, decoder.category
    flatten(event, document, decoder)
    return True


def convert(data: bytes) -> Converted | None:
    """The event of an agent in the form that rules match; only its message if the XML cannot be read at all.

    None for anything else.
    """
    received = dict(reversed(read_object(data, cut_text=True) or ()))  # the first of each name
    event, message = received.get("Event"), received.get("Message")
    if not isinstance(event, str):
        return None
    # Backslashes are doubled before anything else: one before a bracket would hide it.
    roots, whole = parse_beginning(to_bytes(event.replace("\\", "\\\\")))
    sections = [one for root in roots for one in (root.children if root.key == "event" else [root])]
    win: dict[str, dict[str, Any]] = {"system": {}, "eventdata": {}}
    for section in sections:
        if section.key == "system":
            _system(section, win["system"])
        elif section.key == "eventdata":
            _event_data(section, win["eventdata"])
        else:
            _other(section, win)
    _severity(win["system"], sections)
    if isinstance(message, str):
        win["system"]["message"] = f'"{message.rstrip()}"'
    _policy(win["eventdata"])
    return Converted({"win": {name: values for name, values in win.items() if values}}, whole)


def _text(value: bytes) -> str:
    """A value as in the JSON that it came in (ruleset.md 14, Q19); what ends it there may be an escape, and stays."""
    text = value.decode("utf-8", "surrogateescape")
    return (text.translate(_ESCAPES) if _ESCAPED.search(text) else text).rstrip()


def as_written(value: bytes) -> bytes:
    """The inverse of :func:`_text`, and of the escapes of XML: the value as the host has written it."""
    if b"\\" in value:
        parts = value.split(b"\\\\")  # most values have no other escape
        value = b"\\".join([_ESCAPE.sub(_unescaped, one) if b"\\" in one else one for one in parts])
    return _ENTITY.sub(_character, value) if b"&" in value else value


def _unescaped(found: re.Match[bytes]) -> bytes:
    code, one = found.groups()
    return chr(int(code, 16)).encode("utf-8", "surrogatepass") if code else _CONTROLS.get(one, one)


def _character(found: re.Match[bytes]) -> bytes:
    name, decimal, code = found.groups()
    if name:
        return _ENTITIES[name]
    number = int(decimal, 10) if decimal else int(code, 16)
    return chr(number).encode("utf-8", "surrogatepass") if number <= 0x10FFFF else found[0]


def first_lower(name: str) -> str:
    """The name of a field: that of the event with its first letter in lower case."""
    return name[:1].lower() + name[1:]


def _system(section: Element, system: dict[str, Any]) -> None:
    for child in section.children:
        key = child.key
        if key in _NAMED:
            for attribute, name in _NAMED[key].items():
                if value := _text(child.attributes.get(attribute, b"")):
                    system.setdefault(name, value)
        elif key != "correlation" and (value := _text(child.content)):
            system.setdefault(first_lower(child.name), value)


def _event_data(section: Element, data: dict[str, Any]) -> None:
    unnamed: list[str] = []
    for child in section.children:
        value = _text(child.content)
        if value in _NOTHING:
            continue
        if child.key != "data":
            data.setdefault(first_lower(child.name), value)
        elif name := _text(child.attributes.get("Name", b"")):
            data.setdefault(first_lower(name), value)
        else:
            unnamed.append(value)
    if unnamed:
        data.setdefault("data", ", ".join(unnamed))


def _other(section: Element, win: dict[str, dict[str, Any]]) -> None:
    """``UserData`` and similar sections: the children of each of their children."""
    for child in section.children:
        values = win.setdefault(first_lower(child.name), {})
        for one in child.children:
            if (value := _text(one.content)) not in _NOTHING:
                values.setdefault(first_lower(one.name), value)


def _severity(system: dict[str, Any], sections: list[Element]) -> None:
    """Only events with a level and keywords have a severity (agent-data.md 8.2). An empty level is one of 0."""
    named = {child.key for one in sections if one.key == "system" for child in one.children}
    if not named >= {"level", "keywords"}:
        return
    level = str(system.get("level", "0"))
    found = _SEVERITIES.get(level, "UNKNOWN")
    if level == "0":
        try:
            keywords = int(str(system.get("keywords", "0")), 16)
        except ValueError:
            keywords = 0
        if keywords & _AUDIT_FAILURE:
            found = "AUDIT_FAILURE"
        elif keywords & _AUDIT_SUCCESS:
            found = "AUDIT_SUCCESS"
    system["severityValue"] = found


def _policy(data: dict[str, Any]) -> None:
    """Names of audit policies beside their numbers."""
    category, sub = (str(data.get(name, "")).strip("%") for name in ("categoryId", "subcategoryId"))
    if category and sub:
        for name, table, number in (("category", CATEGORIES, category), ("subcategory", SUBCATEGORIES, sub)):
            if number in table:
                data[name] = table[number]
    changes = data.get("auditPolicyChanges")
    if isinstance(changes, str):
        names = [CHANGES[one] for one in (part.strip().strip("%") for part in changes.split(",")) if one in CHANGES]
        data["auditPolicyChangesId"] = changes
        if names:
            data["auditPolicyChanges"] = ", ".join(names)
