"""The service account: who the daemons run as, and the way there without a way back."""

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

SERVICE_USER = "secmon"


@dataclass(frozen=True)
class Account:
    """A user of this host, with every group it is a member of."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def find_account(name: str = SERVICE_USER) -> Account | None:
    """The account called ``name``; ``None`` when this host has no such user."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    groups = {entry.pw_gid, *(group.gr_gid for group in grp.getgrall() if name in group.gr_mem)}
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(sorted(groups)), entry.pw_dir)


def is_root() -> bool:
    return os.geteuid() == 0


def drop_to(account: Account) -> None:
    """Become ``account`` for good: groups first, then real, effective and saved ids.

    Raises PermissionError when this process is not root, RuntimeError when a way back to root is left.
    """
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.environ.update(HOME=account.home, USER=account.name, LOGNAME=account.name)
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return
    if account.uid != 0:
        raise RuntimeError(f"root privileges could not be given up for {account.name}")


def first_closed(account: Account, path: Path) -> Path | None:
    """The first folder on the way to ``path``, or ``path`` itself, that ``account`` may not enter or read, by its mode.

    ``None`` when all is open. Access lists beyond the mode are not looked at.
    """
    for step in [*reversed(path.resolve().parents), path.resolve()]:
        status = step.stat()
        shift = 6 if status.st_uid == account.uid else 3 if status.st_gid in account.groups else 0
        wanted = 0o1 if step.is_dir() else 0o4
        if not status.st_mode >> shift & wanted:
            return step
    return None


def closed_to(account: Account, root: Path) -> Path | None:
    """What keeps ``account`` from running the daemons of the installation ``root``: its own, Python's or our code."""
    found = (first_closed(account, path) for path in (root, Path(os.__file__), Path(__file__)))
    return next((path for path in found if path is not None), None)


def share(path: Path, mode: int, account: Account | None) -> None:
    """Give ``path`` its ``mode`` and, as root, the group of the service account, which must use it too."""
    os.chmod(path, mode)
    if account is not None and is_root():
        os.chown(path, -1, account.gid)
