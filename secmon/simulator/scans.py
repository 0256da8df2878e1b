"""Reports of an agent's scanners: files, inventory, assessments, rootkit checks (agent-data.md 3-6, 14.4)."""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any

from secmon.simulator.dialect import Dialect
from secmon.simulator.host.files import WatchedFiles
from secmon.simulator.host.inventory import Inventory
from secmon.simulator.profiles import Profile

Report = tuple[str, str, Mapping[str, Any] | str]
"""Queue, location, body: an object goes out as JSON."""

_ROWS = 20
"""Files and packages of the host at first."""
_OLD_INVENTORY = ("hardware", "OS", "network", "port", "packages", "process")


class Scans:
    """The scanners of one host; findings change with each report. ``now`` is the host's clock."""

    def __init__(
        self, name: str, profile: Profile, dialect: Dialect, random: Random, now: Callable[[], datetime]
    ) -> None:
        self._name, self._random = name, random
        self._files = WatchedFiles(profile, random, now, _ROWS)
        self._inventory = Inventory(name, profile, dialect, random, now, _ROWS)
        self._deltas: deque[Mapping[str, Any]] = deque()
        self._checks = 0

    def file(self) -> Report:
        """A file appeared, changed or went."""
        return "8", "syscheck", self._files.change()

    def inventory(self) -> Report:
        """A row of the inventory changed."""
        while not self._deltas:
            self._deltas.extend(self._inventory.change())
        return "d", "syscollector", self._deltas.popleft()

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
