"""Descriptions of rules with the values of an event (ruleset.md 6.12)."""

import re

from secmon.engine.event import STATIC, Event
from secmon.engine.rules.rule import Rule

LIMIT = 1024
"""Bytes; a description that would become as long is not expanded."""
_REFERENCE = re.compile(rb"\$\(([^)]*)\)")
_STATIC = frozenset(STATIC)


def describe(rule: Rule, event: Event) -> bytes:
    """The description of ``rule`` for ``event``; fields that the event lacks are empty."""
    if b"$(" not in rule.description:
        return rule.description
    text = _REFERENCE.sub(lambda found: _value(event, found[1].decode("utf-8", "replace")), rule.description)
    return text if len(text) < LIMIT else rule.description


def _value(event: Event, name: str) -> bytes:
    if name in _STATIC:
        return event.static.get(name, b"")
    if name == "program_name":
        return event.program_name or b""
    if name == "hostname":
        return event.hostname
    return event.dynamic_value(name.lower()) or b""
