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


def share(path: Path, mode: int, account: Account | None) -> None:
    """Give ``path`` its ``mode`` and, as root, the group of the service account, which must use it too."""
    os.chmod(path, mode)
    if account is not None and is_root():
        os.chown(path, -1, account.gid)
