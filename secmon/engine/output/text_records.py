"""Alerts, archives and firewall events as text (ruleset.md 9.2, 9.3)."""

import calendar
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

from secmon.engine.engine import Verdict
from secmon.engine.event import Event
from secmon.engine.output.describe import describe
from secmon.engine.output.document import Labels
from secmon.engine.output.integrity import integrity_lines, is_integrity

_MONTHS: Final = tuple(calendar.month_abbr)  # fixed at import: a later locale changes nothing
_LINES = (
    (b"Src IP: ", "srcip"),
    (b"Src Port: ", "srcport"),
    (b"Dst IP: ", "dstip"),
    (b"Dst Port: ", "dstport"),
    (b"User: ", "dstuser"),
)
_FIREWALL_FIELDS = ("action", "srcip", "dstip", "srcport", "dstport", "protocol")
_ACTIONS: Mapping[bytes, bytes] = {
    b"d": b"DROP", b"r": b"DROP", b"b": b"DROP", b"c": b"CLOSED", b"t": b"CLOSED",
    b"a": b"ALLOW", b"p": b"ALLOW", b"o": b"ALLOW",
}  # fmt: skip
_BOUNDARY = re.compile(rb"\n(?=\r?\n|\*\* Alert |\Z)")
"""A line end in a text that would end the record, or begin another one."""
KEEPALIVE = b"ossec-keepalive"
"""Location of messages that are never archived."""


def alert_record(
    verdict: Verdict, number: str, labels: Labels | None = None, *, description: bytes | None = None
) -> bytes:
    """One alert of alerts.log, the empty line at its end included. Only for a verdict with a rule.

    ``description`` of the rule, if it is rendered already.
    """
    event, rule = verdict.event, verdict.rule
    assert rule is not None, "alerts name their rule"
    mail = b" mail " if rule.mail else b""
    lines = [
        b"** Alert %b:%b - %b" % (number.encode(), mail, rule.groups),
        b"%b %b" % (long_stamp(event.time), source(event)),
    ]
    if labels is not None:
        lines += [f"{name}: {value}".encode() for name, value in labels.visible]
    shown = _one_line(describe(rule, event) if description is None else description)
    lines.append(b"Rule: %d (level %d) -> '%b'" % (rule.id, rule.level, shown))
    static = event.static
    lines += [label + _one_line(value) for label, name in _LINES if (value := static.get(name))]
    lines.append(event.full_log)
    lines += integrity_lines(event) if is_integrity(event) else _fields(event)
    lines += event.previous
    return _BOUNDARY.sub(b"\n ", b"\n".join(lines)) + b"\n\n"


def _fields(event: Event) -> list[bytes]:
    return [b"%b: %b" % (name.encode("utf-8", "surrogateescape"), value) for name, value in event.dynamic if value]


def custom_record(template: str, verdict: Verdict, number: str) -> bytes:
    """One alert by ``custom_alert_output``; absent values are ``None``."""
    event, rule = verdict.event, verdict.rule
    assert rule is not None, "alerts name their rule"
    values = {
        "$TIMESTAMP": number.partition(".")[0].encode(),
        "$FTELL": number.partition(".")[2].encode(),
        "$RULEALERT": b"1" if verdict.alert else b"0",
        "$HOSTNAME": event.hostname,
        "$LOCATION": event.location,
        "$RULEID": str(rule.id).encode(),
        "$RULELEVEL": str(rule.level).encode(),
        "$RULECOMMENT": describe(rule, event),
        "$SRCIP": event.static.get("srcip"),
        "$DSTUSER": event.static.get("dstuser"),
        "$FULLLOG": event.full_log,
        "$RULEGROUP": rule.groups,
    }
    made = template.encode()
    for token, value in values.items():  # a token in a replaced value is replaced too: rare, and the text is for people
        made = made.replace(token.encode(), _one_line(value or b"None"))
    return made + b"\n"


def archive_line(event: Event) -> bytes:
    """One line of archives.log. The lines of a log of several lines are indented, so that none looks like an event."""
    return b"%b\n" % b" ".join((long_stamp(event.time), source(event), event.full_log)).replace(b"\n", b"\n ")


def is_firewall(event: Event) -> bool:
    return event.category == "firewall"


def complete(event: Event) -> bool:
    """Whether a firewall event has all fields of its line; otherwise it is dropped (ruleset.md 11)."""
    return all(event.static.get(name) for name in _FIREWALL_FIELDS)


def firewall_line(event: Event) -> bytes:
    """One line of firewall.log. Only for a complete event."""
    static = event.static
    action = static["action"].lower()
    word = _ACTIONS.get(action[:1]) or (b"ALLOW" if b"accept" in action else b"UNKNOWN")
    line = b"%b %b %b %b %b:%b->%b:%b" % (
        long_stamp(event.time), source(event), word, static["protocol"],
        static["srcip"], static["srcport"], static["dstip"], static["dstport"],
    )  # fmt: skip
    return _one_line(line) + b"\n"


def _one_line(value: bytes) -> bytes:
    return value.replace(b"\n", b" ")


def source(event: Event) -> bytes:
    """``host->location``; the location alone for events of agents, where it names the agent."""
    return event.location if event.from_agent else b"%b->%b" % (event.hostname, event.location)


@lru_cache(maxsize=4)
def long_stamp(moment: datetime) -> bytes:
    """``YYYY Mon DD HH:MM:SS``."""
    return f"{moment.year:04d} {_MONTHS[moment.month]} {moment.day:02d} {moment:%H:%M:%S}".encode()
