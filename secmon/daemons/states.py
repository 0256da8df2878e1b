"""State of each daemon, read off the run folder and the process table (manager.md 8.1)."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from secmon.common.errors import SecmonError
from secmon.common.jobs import doer
from secmon.common.paths import Paths
from secmon.common.regular import read_regular

DAEMONS = (
    "secmon-agentlessd",
    "secmon-analysisd",
    "secmon-authd",
    "secmon-csyslogd",
    "secmon-dbd",
    "secmon-monitord",
    "secmon-execd",
    "secmon-integratord",
    "secmon-logcollector",
    "secmon-maild",
    "secmon-remoted",
    "secmon-reportd",
    "secmon-syscheckd",
    "secmon-clusterd",
    "secmon-modulesd",
    "secmon-db",
    "secmon-apid",
)
"""The names clients know, in the order they are shown."""

RESTARTING = ".restart"

_PID_FILE = re.compile(r"(?P<daemon>secmon-[a-z]+)-(?P<pid>[0-9]+)\.pid")


def process_start(pid: int) -> int | None:
    """Start of process ``pid`` in clock ticks since boot; ``None`` when it does not exist or is a zombie.

    Ticks since boot, unlike dates, do not move when the wall clock is set. Raises 1913 when the process table cannot
    be read at all.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        if not os.access("/proc/self/stat", os.R_OK):
            raise SecmonError(1913) from None
        return None
    except OSError as error:
        raise SecmonError(1913, str(error)) from error
    # The second field is the program's name in parentheses and may hold anything, parentheses too.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def lives(pid_file: Path) -> bool:
    """Whether the process that wrote ``pid_file`` still runs: same pid and, when recorded, same start."""
    match = _PID_FILE.fullmatch(pid_file.name)
    if match is None:
        return False
    start = process_start(int(match["pid"]))
    if start is None:
        return False
    try:
        recorded = read_regular(pid_file).split()
    except OSError:  # gone meanwhile, or nothing that a daemon has written
        return False
    return len(recorded) < 2 or recorded[1] == str(start).encode()


def pid_files(run: Path, names: Iterable[str] | None = None) -> Mapping[str, list[Path]]:
    """Pid files in the folder ``run`` by daemon."""
    found: dict[str, list[Path]] = {}
    for name in _listing(run) if names is None else names:
        if match := _PID_FILE.fullmatch(name):
            found.setdefault(match["daemon"], []).append(run / name)
    return found


def daemon_states(paths: Paths) -> dict[str, str]:
    """``running``, ``starting``, ``restarting``, ``failed`` or ``stopped`` for each of :data:`DAEMONS`, in order.

    A daemon whose job another one does is in that one's state. Nothing is remembered and nothing is written: what is
    true now is said now. Raises 1913.
    """
    names = _listing(paths.run)
    pids = pid_files(paths.run, names)
    return {daemon: _state(doer(daemon), names, pids.get(doer(daemon), [])) for daemon in DAEMONS}


def _state(daemon: str, names: set[str], pids: list[Path]) -> str:
    if f"{daemon}.failed" in names:
        return "failed"
    if RESTARTING in names:
        return "restarting"
    if f"{daemon}.start" in names:
        return "starting"
    if not pids:
        return "stopped"
    return "running" if any(lives(file) for file in pids) else "failed"


def _listing(run: Path) -> set[str]:
    try:
        return set(os.listdir(run))
    except FileNotFoundError:
        return set()
