"""Generated alerts as lines of alerts.json, 930 bytes each: logins, web requests, changed files, Windows events."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

AGENTS, RULES = 2000, 400
_USERS = ("root", "admin", "deploy", "postgres", "backup", "jenkins", "oracle", "www-data")
_WORDS = ("failed", "accepted", "session", "opened", "closed", "denied", "timeout", "invalid", "policy", "service")


def alert_lines(count: int, *, start: datetime, rate: float = 1000.0, seed: int = 1) -> Iterator[bytes]:
    """``count`` lines from ``start`` on, ``rate`` in a second of their time stamps."""
    numbers = random.Random(seed)
    offset = 0
    for at in range(count):
        moment = start + timedelta(seconds=at / rate)
        alert = _alert(numbers, at, moment)
        alert["id"] = f"{int(moment.timestamp())}.{offset}"
        line = json.dumps(alert, separators=(",", ":")).encode() + b"\n"
        offset += len(line)
        yield line


def _alert(numbers: random.Random, at: int, moment: datetime) -> dict[str, Any]:
    rule, agent = int(RULES * numbers.random() ** 3), int(AGENTS * numbers.random() ** 2)
    kind = numbers.choices((_login, _request, _file, _windows), (4, 3, 2, 1))[0]
    ip = f"10.{agent >> 8}.{agent & 255}.7"
    return {
        "timestamp": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}+0000",
        "rule": {
            "level": 3 + rule % 10,
            "description": f"{_WORDS[rule % 10]} {_WORDS[rule // 10 % 10]} of kind {rule}.",
            "id": str(5000 + rule),
            "mitre": {"id": [f"T1{rule % 90:03d}"], "tactic": ["Credential Access"], "technique": ["Brute Force"]},
            "firedtimes": 1 + at % 97,
            "mail": False,
            "groups": ["syslog", f"group_{rule % 40}", "authentication_failed"],
            "pci_dss": ["10.2.4", "10.2.5"], "gdpr": ["IV_35.7.d", "IV_32.2"], "hipaa": ["164.312.b"],
        },
        "agent": {"id": f"{agent + 1:03d}", "name": f"web-{agent + 1}", "ip": ip},
        "manager": {"name": "siem-1.example.com"},
        "id": "",
        "cluster": {"name": "secmon", "node": "worker1"},
        **kind(numbers, at, moment),
    }  # fmt: skip


def _address(numbers: random.Random) -> str:
    number = int(60_000 * numbers.random() ** 2)
    return f"203.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _login(numbers: random.Random, at: int, moment: datetime) -> dict[str, Any]:
    source, user, port = _address(numbers), numbers.choice(_USERS), str(numbers.randrange(1024, 65536))
    stamp = moment.strftime("%b %d %H:%M:%S")
    return {
        "full_log": f"{stamp} web sshd[{at % 30000}]: Failed password for invalid user {user} from {source} "
        f"port {port} ssh2",
        "predecoder": {"program_name": "sshd", "timestamp": stamp, "hostname": "web"},
        "decoder": {"parent": "sshd", "name": "sshd"},
        "data": {"srcip": source, "srcport": port, "srcuser": user},
        "location": "/var/log/auth.log",
    }


def _request(numbers: random.Random, at: int, moment: datetime) -> dict[str, Any]:
    source, status = _address(numbers), numbers.choice(("400", "403", "404", "500"))
    url = f"/{numbers.choice(_WORDS)}/{numbers.randrange(3000)}?q={numbers.randrange(10**6)}"
    return {
        "full_log": f'{source} - - [{moment:%d/%b/%Y:%H:%M:%S} +0000] "GET {url} HTTP/1.1" {status} 153 "-" '
        '"Mozilla/5.0 (X11; Linux x86_64)"',
        "decoder": {"name": "web-accesslog"},
        "data": {"protocol": "GET", "srcip": source, "id": status, "url": url},
        "location": "/var/log/nginx/access.log",
    }


def _file(numbers: random.Random, at: int, moment: datetime) -> dict[str, Any]:
    path, digest = (
        f"/etc/app-{numbers.randrange(500)}/{numbers.choice(_WORDS)}.conf",
        f"{numbers.getrandbits(256):064x}",
    )
    return {
        "full_log": f"File '{path}' modified\nMode: realtime\nChanged attributes: size,mtime,sha256",
        "syscheck": {
            "path": path, "mode": "realtime", "event": "modified",
            "size_before": str(at % 9000), "size_after": str(at % 9001), "uid_after": "0", "gid_after": "0",
            "uname_after": "root", "sha256_after": digest,
            "mtime_after": moment.strftime("%Y-%m-%dT%H:%M:%S"), "changed_attributes": ["size", "mtime", "sha256"],
        },
        "decoder": {"name": "syscheck_integrity_changed"},
        "location": "syscheck",
    }  # fmt: skip


def _windows(numbers: random.Random, at: int, moment: datetime) -> dict[str, Any]:
    user, process = numbers.choice(_USERS), f"C:\\Windows\\System32\\{numbers.choice(_WORDS)}.exe"
    system = {
        "providerName": "Microsoft-Windows-Security-Auditing", "eventID": str(4600 + at % 60), "level": "0",
        "systemTime": moment.strftime("%Y-%m-%dT%H:%M:%S.0000000Z"), "eventRecordID": str(at), "channel": "Security",
        "computer": f"pc-{at % 700}.example.com", "severityValue": "AUDIT_FAILURE",
        "message": f'"An account failed to log on. Account Name: {user} Process: {process}"',
    }  # fmt: skip
    event = {"targetUserName": user, "logonType": "3", "ipAddress": _address(numbers), "processName": process}
    return {
        "decoder": {"name": "windows_eventchannel"},
        "data": {"win": {"system": system, "eventdata": event}},
        "location": "EventChannel",
    }
