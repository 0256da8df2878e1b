"""What the built-in integrations post for an alert."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from secmon.outputs.alert import Alert

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_FIELD = re.compile(r"\{\{\s*([\w.@-]+)\s*\}\}")
_MOST = 900
"""Characters of a text in a message for people."""

Payload = Callable[[Alert], dict[str, Any]]


def slack(alert: Alert) -> dict[str, Any]:
    """A message of an incoming webhook."""
    fields = {
        "Agent": f"{alert.text('agent', 'name')} ({alert.text('agent', 'id')})",
        "Location": alert.text("location"),
        "Rule": f"{alert.rule} (level {alert.level})",
        "Source": alert.text("data", "srcip"),
        "User": alert.text("data", "dstuser"),
    }
    title = alert.description[:_MOST] or f"Rule {alert.rule}"
    return {
        "attachments": [
            {
                "color": _color(alert.level),
                "fallback": title,
                "title": title,
                "text": alert.text("full_log")[:_MOST],
                "fields": [
                    {"title": name, "value": value[:_MOST], "short": True} for name, value in fields.items() if value
                ],
                "footer": f"secmon, {alert.text('manager', 'name')}, alert {alert.text('id')}",
                **({"ts": int(alert.time.timestamp())} if alert.time else {}),
            }
        ]
    }


def pagerduty(key: str) -> Payload:
    """An event of the Events API 2; repeats of an alert have the same key and open no second incident."""

    def event(alert: Alert) -> dict[str, Any]:
        return {
            "routing_key": key,
            "event_action": "trigger",
            "dedup_key": alert.document_id[:255],
            "client": "secmon",
            "payload": {
                "summary": (alert.description or f"Rule {alert.rule}")[:1024],
                "source": (alert.text("agent", "name") or alert.text("manager", "name") or "secmon")[:1024],
                "severity": _severity(alert.level),
                "component": alert.text("location")[:1024],
                "group": alert.groups[:1024],
                "class": f"rule {alert.rule}",
                **({"timestamp": alert.text("timestamp")} if alert.time else {}),
                "custom_details": alert.fields,
            },
        }

    return event


def filled(template: str, alert: Alert, *, as_json: bool) -> bytes:
    """``template`` with the values of ``{{field.name}}``; ``{{alert}}`` is the whole alert as JSON.

    ``as_json``: values are escaped for the inside of JSON strings. A field that is absent is empty.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] == "alert":
            return alert.line.decode("utf-8", "replace")
        found: Any = alert.fields
        for name in match[1].split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        text = found if isinstance(found, str) else "" if found is None else msgspec.json.encode(found).decode()
        return json.dumps(text, ensure_ascii=False)[1:-1] if as_json else text

    return _FIELD.sub(value, template).encode("utf-8", "replace")


def _color(level: int) -> str:
    return "good" if level <= 4 else "warning" if level <= 7 else "danger"


def _severity(level: int) -> str:
    return "info" if level <= 4 else "warning" if level <= 7 else "error" if level <= 11 else "critical"
