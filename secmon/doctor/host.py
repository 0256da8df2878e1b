"""The host: disk, limits, clock, service user."""

import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, find_account, root_started
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.doctor.finding import Finding, ok, problem, warning

_LOW_BYTES, _EMPTY_BYTES = 2 << 30, 256 << 20
_LOW_SHARE, _LOW_INODES = 0.05, 0.05
_SPARE_FILES = 1024
"""Descriptors beside those of agents."""
_UNSYNCHRONIZED = 0x40
"""STA_UNSYNC of adjtimex(2)."""


def check_disk(paths: Paths) -> Iterator[Finding]:
    """Free room of each disk that the installation is on."""
    seen: set[int] = set()
    for folder in (paths.root, paths.etc, paths.root / "queue", paths.logs, paths.root / "var"):
        if folder.is_dir() and (device := folder.stat().st_dev) not in seen:
            seen.add(device)
            yield _disk(folder)


def _disk(folder: Path) -> Finding:
    found = os.statvfs(folder)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    shown = f"{free / 1e9:.1f} of {size / 1e9:.1f} GB are free below {folder}"
    remedy = f"make room: look into {folder} (du -x --max-depth=2), shorten the retention of logs, or enlarge the disk"
    if free < _EMPTY_BYTES:
        return problem("disk", shown, remedy)
    if free < min(_LOW_BYTES, size * _LOW_SHARE):
        return warning("disk", shown, remedy)
    if found.f_files and found.f_favail < found.f_files * _LOW_INODES:
        return warning("disk", f"few inodes are free below {folder}: {found.f_favail}", remedy)
    return ok("disk", shown)


def check_limits(paths: Paths, agents: int) -> Iterator[Finding]:
    """Whether the daemons may open a file for each of ``agents`` connections."""
    holder = SupervisorLock(paths.root).holder()
    limit, whose = _open_files(holder), "the daemons" if holder else "processes of this shell"
    needed = agents + _SPARE_FILES
    if limit < needed:
        remedy = f"set LimitNOFILE={needed} or more in the systemd unit (ulimit -n in a shell), and restart"
        yield problem("limits", f"{whose} may open {limit} files, {agents} agents need {needed}", remedy)
    else:
        yield ok("limits", f"{whose} may open {limit} files")


def _open_files(pid: int) -> int:
    """The hard limit of a process, to which daemons raise theirs; 0: of this one."""
    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    except (PermissionError, ProcessLookupError):
        return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def check_clock() -> Iterator[Finding]:
    """Whether the kernel's clock is kept by a time service."""
    if synchronized():
        yield ok("clock", "it is synchronized")
    else:
        remedy = "run a time service (apt-get install chrony): nodes whose clocks differ refuse each other"
        yield warning("clock", "no time service keeps it", remedy)


def synchronized() -> bool:
    """As adjtimex(2) says; nothing is changed."""
    timex = (ctypes.c_int * 64)()  # larger than struct timex, whose member modes is first: 0, read only
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    status = timex[5 * ctypes.sizeof(ctypes.c_long) // ctypes.sizeof(ctypes.c_int)]  # after modes and four longs
    return state >= 0 and not status & _UNSYNCHRONIZED


def check_user(paths: Paths) -> Iterator[Finding]:
    """Whether the daemons have a user of their own."""
    account = find_account()
    if not root_started():
        yield ok("user", f"processes run as the user {os.getuid()} who starts them")
    elif account is None:
        remedy = f"secmon service install makes the user {SERVICE_USER}, and gives the installation to it"
        yield warning("user", "the daemons run as root", remedy)
    elif paths.etc.stat().st_uid != account.uid:
        remedy = f"secmon service install --root {paths.root} gives it to {SERVICE_USER}"
        yield problem("user", f"{paths.etc} does not belong to the user {SERVICE_USER}", remedy)
    else:
        yield ok("user", f"the daemons run as {SERVICE_USER}")
