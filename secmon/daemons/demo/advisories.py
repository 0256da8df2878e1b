"""Made-up advisories for the simulated hosts of the demo, so that some of them are vulnerable."""

import json
from collections.abc import Iterator
from typing import Any

from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities.importing import import_feed

_ECOSYSTEMS = (
    "Debian:12",
    "Ubuntu:22.04:LTS",
    "SUSE:Linux Enterprise Server 15 SP5",
    "Red Hat:enterprise_linux:9::baseos",
    "Red Hat:enterprise_linux:7::server",
    "Alpine:v3.19",
    "Arch Linux",
)
_FLAWS = (
    ("CVE-2099-0001", "openssl", "1.99-1", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"),
    ("CVE-2099-0002", "curl", "2.15-1", "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N"),
    ("CVE-2099-0003", "nginx", "4.12-1", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"),
    ("CVE-2099-0004", "sudo", None, "CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H"),
)
"""A CVE, its package, the version with the fix, if there is one, and how severe it is."""
_LIBRARY = ("CVE-2099-0006", "requests", "99", "CVSS:3.1/AV:N/AC:H/PR:N/UI:N/S:U/C:N/I:N/A:H")
"""On hosts of all systems."""
_WINDOWS = ("CVE-2099-0005", ("Windows Server 2019", "Windows 11"), "CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H")


def import_demo_advisories(paths: Paths) -> None:
    """Put them in force on the master. Raises OSError."""
    import_feed(paths, _records())


def _records() -> Iterator[tuple[str, bytes]]:
    for cve, package, fix, vector in _FLAWS:
        yield cve, _record(cve, vector, [_affected(each, package, fix) for each in _ECOSYSTEMS])
    cve, package, fix, vector = _LIBRARY
    yield cve, _record(cve, vector, [_affected("PyPI", package, fix)])
    cve, products, vector = _WINDOWS
    yield cve, _record(cve, vector, [_affected("Windows", each, None) for each in products])


def _record(cve: str, vector: str, affected: list[dict[str, Any]]) -> bytes:
    record = {
        "id": cve,
        "modified": "2099-01-12T00:00:00Z",
        "published": "2099-01-10T00:00:00Z",
        "summary": "A flaw that was made up for this demo",
        "severity": [{"type": "CVSS_V3", "score": vector}],
        "references": [{"type": "WEB", "url": f"https://example.org/{cve}"}],
        "affected": affected,
    }
    return json.dumps(record).encode()


def _affected(ecosystem: str, package: str, fix: str | None) -> dict[str, Any]:
    events = [{"introduced": "0"}, *([{"fixed": fix}] if fix else [])]
    ranges = [{"type": "ECOSYSTEM", "events": events}]
    return {"package": {"ecosystem": ecosystem, "name": package}, "ranges": ranges}
