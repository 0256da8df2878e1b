"""Documents of alerts: index, id, and the template of the indices."""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

import msgspec

from secmon.outputs.alert import Alert

INDEX = "wazuh-alerts-4.x-"
"""What existing dashboards look for; the day follows."""
TEMPLATE_NAME = "wazuh"
"""Under this name an existing template of other tools is found, and stays."""

_DATES = ("timestamp", "@timestamp")
_NUMBERS = ("rule.level", "rule.firedtimes", "rule.frequency")
_TEXTS = ("full_log", "previous_output", "previous_log")


def index_of(alert: Alert) -> str:
    """The index of the day (UTC) on which the alert was raised."""
    day = alert.time.astimezone(UTC).strftime("%Y.%m.%d") if alert.time is not None else "undated"
    return f"{INDEX}{day}"


def bulk(alerts: Iterable[Alert]) -> bytes:
    """The body of a bulk request. A document that exists already is left as it is: repeats do nothing."""
    lines: list[bytes] = []
    for alert in alerts:
        lines.append(msgspec.json.encode({"create": {"_index": index_of(alert), "_id": alert.document_id}}))
        stamp = f'{{"@timestamp":{msgspec.json.encode(alert.text("timestamp")).decode()},'.encode()
        lines.append(stamp + alert.line[1:] if alert.time is not None and alert.line[:1] == b"{" else alert.line)
    return b"\n".join([*lines, b""])


def template() -> dict[str, Any]:
    """Texts are keywords, logs are searched by words, levels are numbers."""
    properties: dict[str, Any] = {name: {"type": "date", "format": _DATE_FORMAT} for name in _DATES}
    properties |= {name: {"type": "text"} for name in _TEXTS}
    rule = {name.partition(".")[2]: {"type": "long"} for name in _NUMBERS}
    properties["rule"] = {"properties": rule}
    keyword = {"type": "keyword", "ignore_above": 8191}
    return {
        "order": 0,
        "index_patterns": [f"{INDEX}*"],
        "settings": {"index.mapping.total_fields.limit": 10_000, "index.refresh_interval": "5s"},
        "mappings": {
            "dynamic_templates": [{"texts": {"match_mapping_type": "string", "mapping": keyword}}],
            "date_detection": False,
            "properties": properties,
        },
    }


_DATE_FORMAT = "strict_date_optional_time||yyyy-MM-dd'T'HH:mm:ss.SSSZ||epoch_millis"
