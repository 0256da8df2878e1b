"""Alert files as the engine writes them, by the engine's own class."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from secmon.alerts.alert_reader import AlertReader, Position
from secmon.common.logfile.log_series import LogSeries, alert_series
from secmon.common.logfile.rotation import LogRotation, RotationPolicy
from secmon.common.paths import Paths
from secmon.engine.output.output_file import OutputFile

FIRST = Position()
"""Before all files."""
NOON = datetime(2026, 11, 22, 12)


class AlertFiles:
    """Writes alerts; ``now`` is set by tests."""

    def __init__(self, root: Path, *, max_bytes: int = 0) -> None:
        self.root = root
        self.series: LogSeries = alert_series(Paths(root))
        self.now = NOON
        self._policy = RotationPolicy(max_bytes=max_bytes, live_is_part=True)
        self._file = OutputFile(self.series, self._policy, on_cut=lambda path, size: None)
        self._readers: list[AlertReader] = []
        self.written = 0
        self.add()

    def add(self, *alerts: dict[str, Any]) -> None:
        """Write alerts, and open the file of the day before."""
        self._file.rotate_due(self.now)
        for one in alerts:
            self._file.add(msgspec.json.encode(one) + b"\n")
            self.written += 1
        self._file.flush()

    def number(self, *numbers: int, **fields: Any) -> None:
        """Write alerts with these numbers."""
        self.add(*(alert(one, **fields) for one in numbers))

    def compress(self) -> None:
        """Compress the files of past days."""
        LogRotation(self.series, RotationPolicy(live_is_part=True)).tidy(self.now.date())

    def reader(self, position: Position | None = FIRST) -> AlertReader:
        """A reader, which :meth:`close` closes."""
        made = AlertReader(self.series, position)
        self._readers.append(made)
        return made

    def close(self) -> None:
        self._file.close()
        for one in self._readers:
            one.close()


def alert(number: int, *, level: int = 5, **fields: Any) -> dict[str, Any]:
    """An alert as the engine writes it."""
    made: dict[str, Any] = {
        "timestamp": "2026-11-22T12:00:00.123+0000",
        "rule": {
            "level": level, "description": "sshd: authentication failed.", "id": "5716", "firedtimes": 1,
            "mail": level >= 7, "groups": ["syslog", "sshd", "authentication_failed"], "pci_dss": ["10.2.4"],
        },
        "agent": {"id": "003", "name": "web-3", "ip": "192.0.2.3"},
        "manager": {"name": "mgr.example.org"},
        "id": f"1700000000.{number}",
        "cluster": {"name": "secmon", "node": "node01"},
        "full_log": f"Nov 22 12:00:00 web-3 sshd[9]: Failed password for root from 198.51.100.7 port 22 n={number}",
        "decoder": {"name": "sshd"},
        "data": {"srcip": "198.51.100.7", "srcport": "4022", "dstuser": "root"},
        "location": "/var/log/auth.log",
    }  # fmt: skip
    return made | fields
