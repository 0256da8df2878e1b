"""``python -m tests.daemons.toysupervisor ROOT [--single]``: a supervisor of two toys."""

import asyncio
import json
import sys
from pathlib import Path

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.daemons.logs import LogSettings, log_process
from secmon.daemons.plan import DaemonSpec, Plan
from secmon.daemons.supervisor import Supervisor
from secmon.daemons.watchdog import WatchSettings

NAMES = ("secmon-apid", "secmon-clusterd")


def plan(root: Path) -> Plan:
    """The two toys; ``plan.json`` changes fields, ``invalid`` makes the configuration invalid."""
    if (root / "invalid").exists():
        raise ConfigError("ossec.conf", "cluster.key", "", "32 letters")
    changes = json.loads((root / "plan.json").read_text()) if (root / "plan.json").exists() else {}
    if changes.get("watch"):
        changes["watch"] = WatchSettings(**changes["watch"])
    daemons = tuple(
        DaemonSpec(name=name, factory="tests.daemons.toys:build", needs_root=name == NAMES[0]) for name in NAMES
    )
    return Plan(daemons=daemons, **{"start_seconds": 20.0, "stop_seconds": 5.0, **changes})


def main() -> int:
    root = Path(sys.argv[1])
    log_process(root, "secmon", LogSettings(terminal=True))
    supervisor = Supervisor(
        Paths(root), lambda: plan(root), secrets={"https.key": "x"}, single_process="--single" in sys.argv
    )
    return asyncio.run(supervisor.run())


if __name__ == "__main__":
    sys.exit(main())
