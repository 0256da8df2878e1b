"""``python -m tests.daemons.toysupervisor ROOT [--single]``: a supervisor of two toys, and of a leader."""

import asyncio
import json
import sys
from pathlib import Path

from secmon.common.daemon_names import LEADER
from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.daemons.process_log import LogSettings, set_up_process_log
from secmon.daemons.supervisor import Supervisor
from secmon.daemons.supervisor_settings import ProcessSpec, SupervisorSettings
from secmon.daemons.watchdog import WatchSettings

NAMES = ("secmon-apid", "secmon-clusterd")


def settings(root: Path) -> SupervisorSettings:
    """The two toys; ``settings.json`` changes fields, ``invalid`` makes the configuration invalid."""
    if (root / "invalid").exists():
        raise ConfigError("ossec.conf", "cluster.key", "", "32 letters")
    changes = json.loads((root / "settings.json").read_text()) if (root / "settings.json").exists() else {}
    if changes.get("watch"):
        changes["watch"] = WatchSettings(**changes["watch"])
    daemons = tuple(
        ProcessSpec(name=name, factory="tests.daemons.toys:build", needs_root=name == NAMES[0]) for name in NAMES
    )
    if (root / "record").exists():
        daemons += (ProcessSpec(name=LEADER, factory="tests.daemons.toyleader:build"),)
    return SupervisorSettings(daemons=daemons, **{"start_seconds": 20.0, "stop_seconds": 5.0, **changes})


def main() -> int:
    root = Path(sys.argv[1])
    counters = set_up_process_log(root, "secmon", LogSettings(terminal=True))
    supervisor = Supervisor(
        Paths(root),
        lambda: settings(root),
        secrets={"https.key": "x"},
        single_process="--single" in sys.argv,
        log_counters=counters,
    )
    return asyncio.run(supervisor.run())


if __name__ == "__main__":
    sys.exit(main())
