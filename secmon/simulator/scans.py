"""Reports of an agent's scanners: files, inventory, assessments, rootkit checks (agent-data.md 3-6, 14.4)."""

from collections.abc import Callable
from datetime import datetime
from hashlib import md5, sha1, sha256
from random import Random
from typing import Any

import msgspec

from secmon.simulator.profiles import Profile

Report = tuple[str, str, dict[str, Any] | str]
"""Queue, location, body: an object goes out as JSON."""

_CHECKSUM = ("size", "perm", "attributes", "uid", "gid", "user_name", "group_name", "mtime", "inode", "hash_md5",
             "hash_sha1", "hash_sha256")  # fmt: skip
_OLD_INVENTORY = ("hardware", "OS", "network", "port", "packages", "process")


class Scans:
    """The scanners of one host; findings change with each report. ``now`` is the host's clock."""

    def __init__(self, name: str, profile: Profile, random: Random, now: Callable[[], datetime]) -> None:
        self._name, self._profile, self._random, self._now = name, profile, random, now
        self._files: dict[str, dict[str, Any]] = {}
        self._checks = 0

    def file(self) -> Report:
        """A file appeared, changed or went."""
        path = f"/srv/data/file{self._random.randrange(50):02}.conf"
        old = self._files.get(path)
        seconds = int(self._now().timestamp())
        data: dict[str, Any] = {"path": path, "version": 2, "mode": "realtime", "timestamp": seconds}
        if old is not None and self._random.random() < 0.2:
            del self._files[path]
            return "8", "syscheck", {"type": "event", "data": {**data, "type": "deleted", "attributes": old}}
        new = self._files[path] = self._attributes(path, seconds)
        if old is None:
            return "8", "syscheck", {"type": "event", "data": {**data, "type": "added", "attributes": new}}
        changed = [name.removeprefix("hash_") for name in _CHECKSUM if old.get(name) != new.get(name)]
        data |= {"type": "modified", "attributes": new, "old_attributes": old, "changed_attributes": changed}
        return "8", "syscheck", {"type": "event", "data": data}

    def _attributes(self, path: str, seconds: int) -> dict[str, Any]:
        content = self._random.randbytes(self._random.randrange(1, 64))
        found: dict[str, Any] = {
            "type": "file",
            "size": len(content),
            "perm": "rw-r--r--",
            "uid": "0",
            "gid": "0",
            "user_name": "root",
            "group_name": "root",
            "inode": 1000 + int(path[-7:-5]),
            "mtime": seconds,
            "hash_md5": md5(content, usedforsecurity=False).hexdigest(),
            "hash_sha1": sha1(content, usedforsecurity=False).hexdigest(),
            "hash_sha256": sha256(content).hexdigest(),
        }
        row = ":".join(str(found.get(name, "")) for name in _CHECKSUM)
        found["checksum"] = sha1(row.encode(), usedforsecurity=False).hexdigest()
        return found

    def inventory(self) -> Report:
        """A row of the inventory changed."""
        table, identity, row = self._random.choice((self._package, self._port, self._hardware))()
        row["checksum"] = sha1(msgspec.json.encode(row, order="deterministic"), usedforsecurity=False).hexdigest()
        if identity:
            row["item_id"] = sha1(identity.encode(), usedforsecurity=False).hexdigest()
        row["scan_time"] = f"{self._now():%Y/%m/%d %H:%M:%S}"
        operation = self._random.choice(("INSERTED", "MODIFIED", "DELETED"))
        return "d", "syscollector", {"type": f"dbsync_{table}", "operation": operation, "data": row}

    def _package(self) -> tuple[str, str, dict[str, Any]]:
        number = self._random.randrange(200)
        row = {
            "name": f"package-{number:03}",
            "version": f"{number % 9}.{self._random.randrange(20)}-1",
            "architecture": self._profile.arch,
            "format": self._profile.package,
            "vendor": "Example Maintainers <pkg@example.org>",
            "description": f"Sample package {number}",
            "groups": "utils",
            "install_time": " ",
            "location": " ",
            "priority": "optional",
            "multiarch": None,
            "size": 100 + number,
            "source": " ",
        }
        return (
            "packages",
            "".join(str(row[key]) for key in ("name", "version", "architecture", "format", "location")),
            row,
        )

    def _port(self) -> tuple[str, str, dict[str, Any]]:
        port = self._random.choice((22, 80, 443, 3306, 5432, 8080))
        row = {
            "protocol": "tcp",
            "local_ip": "0.0.0.0",
            "local_port": port,
            "remote_ip": "0.0.0.0",
            "remote_port": 0,
            "tx_queue": 0,
            "rx_queue": 0,
            "inode": 10000 + port,
            "state": "listening",
            "pid": 500 + port % 97,
            "process": "sshd" if port == 22 else "server",
        }
        return "ports", f"{row['inode']}tcp0.0.0.0{port}", row

    def _hardware(self) -> tuple[str, str, dict[str, Any]]:
        free = self._random.randrange(1_000_000, 8_000_000)
        row = {
            "board_serial": f"BS-{self._name}",
            "cpu_name": "Example CPU",
            "cpu_cores": 4,
            "cpu_mhz": 2400.0,
            "ram_total": 8_000_000,
            "ram_free": free,
            "ram_usage": 100 - free * 100 // 8_000_000,
        }
        return "hwinfo", "", row

    def assessment(self) -> Report:
        """A check of a policy gave another result."""
        number = 9000 + self._checks % 40
        self._checks += 1
        check: dict[str, Any] = {
            "id": number,
            "title": f"Setting {number} is as it should be",
            "rationale": "It keeps others out",
            "compliance": {"cis": f"1.{number % 10}.1", "pci_dss": "2.2.4"},
            "rules": [f"f:/etc/setting{number}.conf -> r:^on"],
            "condition": "all",
            "file": f"/etc/setting{number}.conf",
            "result": self._random.choice(("passed", "failed")),
        }
        scan = 1 + self._random.randrange(1 << 30)
        body = {
            "type": "check",
            "id": scan,
            "policy": "Example hardening",
            "policy_id": "example_linux",
            "check": check,
        }
        return "p", "sca", body

    def rootkit(self) -> Report:
        """A finding of the rootkit scanner."""
        texts = (
            "Starting rootcheck scan.",
            "Ending rootcheck scan.",
            "File '/var/tmp/open' is owned by root and has written permissions to anyone.",
            "System Audit: SSH hardening: root may log in {PCI_DSS: 2.2.4}. File: /etc/ssh/sshd_config. Reference: 1 .",
            "Trojaned version of file '/bin/diff' detected. Signature used: 'bash|^/bin/sh' (Generic).",
        )
        return "9", "rootcheck", self._random.choice(texts)

    def simulator(self) -> Report:
        """What the public load simulator sends, right or wrong (agent-data.md 14.4)."""
        random = self._random
        prefix = f"[{random.randrange(1000):03}] ({self._name}) any->"
        attributes = {"type": "file", "size": -1, "hash_md5": "xxx", "hash_sha1": "xxx", "mtime": 0, "checksum": "xxx"}
        event = {"path": "/tmp/x", "version": 2, "mode": "scheduled", "type": "added", "timestamp": 0}
        ends = [random.randbytes(8).hex() for _ in range(2)]
        data = {
            "id": random.randrange(1 << 31),
            "begin": ends[0],
            "end": ends[1],
            "checksum": random.randbytes(20).hex(),
        }
        check = {"id": 0, "title": "x", "result": "passed", "rules": "f:/x", "compliance": {}}
        choices: tuple[Report, ...] = (
            ("8", f"{prefix}syscheck", {"type": "event", "data": {**event, "attributes": attributes}}),
            ("8", "syscheck", "syscheck-db-completed"),
            ("5", f"{prefix}syscheck", {"component": "syscheck", "type": "integrity_check_global", "data": data}),
            ("d", "syscollector", {"type": random.choice(_OLD_INVENTORY), "ID": 0, "timestamp": "x", "inventory": {}}),
            ("p", "sca", {"type": "check", "id": 0, "policy": "x", "policy_id": "x", "check": check}),
            ("p", "sca", {"type": "summary", "scan_id": 0, "policy_id": "y", "hash": 1, "hash_file": 2, "passed": 1}),
            ("9", "rootcheck", "Starting syscheck scan."),
            ("f", "Eventchannel", {"Message": "x", "Event": "<Event/>"}),
            ("3", "/var/log/nmap.log", "Host: 192.0.2.7 (), open ports: 22 (tcp) 80 (tcp)"),
        )
        return random.choice(choices)
