"""Records of feeds, as JSON."""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

CRITICAL = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"


def affected(ecosystem: str, name: str, *events: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Ranges of a package; without events it has no fix."""
    changes = [{"introduced": "0"}, *events] if not events or "introduced" not in events[0] else list(events)
    ranges = [{"type": "ECOSYSTEM", "events": changes}]
    return {"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges, **more}


def record(name: str, *found: Mapping[str, Any], modified: str = "2099-01-12T10:00:00Z", **more: Any) -> dict[str, Any]:
    """A record with a critical score."""
    given = {"id": name, "modified": modified, "published": "2099-01-10T00:00:00Z", "affected": list(found)}
    return {**given, "severity": [{"type": "CVSS_V3", "score": CRITICAL}], **more}


def fixed(name: str, ecosystem: str, package: str, version: str, **more: Any) -> dict[str, Any]:
    """A record of a package that is vulnerable before ``version``."""
    return record(name, affected(ecosystem, package, {"fixed": version}), **more)


def encoded(*records: Mapping[str, Any]) -> bytes:
    """One record, or an array."""
    return json.dumps(records[0] if len(records) == 1 else records).encode()


def archive(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()
