"""The files of a node's processes in ``var/run``: pid files and markers, and the states they show (manager.md 8.1, 16).

The state of a daemon is read off these files and the process table; no process has to answer.
"""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from secmon.common.daemon_names import DAEMONS, serving_daemon
from secmon.common.errors import SecmonError
from secmon.common.file_io import read_regular, write_file
from secmon.common.paths import Paths
from secmon.common.privileges import Account, is_root

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
    except OSError:  # removed meanwhile, or not a regular file
        return False
    return len(recorded) < 2 or recorded[1] == str(start).encode()


def pid_files(run: Path, names: Iterable[str] | None = None) -> Mapping[str, list[Path]]:
    """Pid files in the folder ``run`` by daemon."""
    found: dict[str, list[Path]] = {}
    for name in _listing(run) if names is None else names:
        if match := _PID_FILE.fullmatch(name):
            found.setdefault(match["daemon"], []).append(run / name)
    return found


def daemon_states(paths: Paths, daemons: Iterable[str] = DAEMONS) -> dict[str, str]:
    """``running``, ``starting``, ``restarting``, ``failed`` or ``stopped`` for each of ``daemons``, in order.

    A daemon whose work another one does has that one's state. Read from the run folder and the process table each time.
    Raises 1913.
    """
    names = _listing(paths.run)
    pids = pid_files(paths.run, names)
    return {daemon: _state(serving_daemon(daemon), names, pids.get(serving_daemon(daemon), [])) for daemon in daemons}


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


class RunFiles:
    """The run folder of one node. The group of ``account`` can read the files."""

    def __init__(self, folder: Path, account: Account | None = None) -> None:
        self.folder = folder
        self.account = account

    def starting(self, daemon: str) -> None:
        """Mark ``daemon`` as starting; remove its earlier failure and pid files of dead processes.

        The order here and below never shows it as stopped in between.
        """
        self._write(f"{daemon}.start", "")
        self._remove(f"{daemon}.failed")
        self.clear_stale(daemon)

    def running(self, daemon: str) -> None:
        self._remove(f"{daemon}.start")

    def failed(self, daemon: str) -> None:
        self._write(f"{daemon}.failed", "")
        self._remove(f"{daemon}.start")

    def stopped(self, daemon: str) -> None:
        """Mark ``daemon`` as stopped on request."""
        self._remove(f"{daemon}.start")
        self._remove(f"{daemon}.failed")
        self.clear_stale(daemon)

    def restarting(self, yes: bool) -> None:
        """Set or remove the marker that shows every daemon as restarting."""
        if yes:
            self._write(RESTARTING, "")
        else:
            self._remove(RESTARTING)

    def write_pid(self, daemon: str, pid: int | None = None) -> Path:
        """Record ``pid`` (default: this process) with its start time, because process ids are used again."""
        pid = pid or os.getpid()
        return self._write(f"{daemon}-{pid}.pid", f"{pid}\n{process_start(pid)}\n")

    def remove_pid(self, daemon: str, pid: int | None = None) -> None:
        self._remove(f"{daemon}-{pid or os.getpid()}.pid")

    def tend_pid(self, daemon: str) -> None:
        """Write the pid file of this process again if it was removed."""
        if not (self.folder / f"{daemon}-{os.getpid()}.pid").exists():
            self.write_pid(daemon)

    def clear_stale(self, daemon: str | None = None) -> None:
        """Remove pid files of ended processes, of one daemon or of all."""
        for name, files in pid_files(self.folder).items():
            for file in files:
                if daemon in {None, name} and not lives(file):
                    _clear(file)

    def clear_all(self) -> None:
        """Remove the markers and stale pid files of an earlier supervisor. Requires the supervisor's lock."""
        for pattern in ("secmon-*.start", "secmon-*.failed", RESTARTING):
            for file in self.folder.glob(pattern):
                _clear(file)
        self.clear_stale()

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        group = self.account.gid if self.account is not None and is_root() else None
        write_file(path, text.encode(), 0o640, gid=group)
        return path

    def _remove(self, name: str) -> None:
        _clear(self.folder / name)


def _clear(path: Path) -> None:
    """Remove the entry ``path``, also a folder. Raises OSError."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(path)
