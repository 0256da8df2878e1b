"""The service account: who the daemons run as, and the way there without a way back.

A process that root has started does as little as possible as root. Installation folders are the service user's to
write, so whoever opens, makes, renames or removes something in them does so with that user's rights: :func:`act_as`.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig, load_api_config

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
    """Whether this process has root's rights now."""
    return os.geteuid() == 0


def root_started() -> bool:
    """Whether this process can have root's rights: it has them, or acts for an account."""
    return os.getuid() == 0


def act_as(account: Account) -> None:
    """Have the rights of ``account`` from now on; only ``common.rights.as_root`` leads back.

    No process of ``account`` can send signals to this one or trace it. Harmless when it has them already. Raises
    PermissionError when root has not started this process.
    """
    if os.geteuid() == account.uid:
        return
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)


@contextmanager
def acting_as(account: Account | None) -> Iterator[None]:
    """:func:`act_as` for a while; ``None``: no change."""
    if account is None:
        yield
        return
    before = os.geteuid(), os.getegid(), os.getgroups()
    act_as(account)
    try:
        yield
    finally:
        uid, gid, groups = before
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)


def drop_to(account: Account) -> None:
    """Become ``account`` for good: groups first, then real, effective and saved ids.

    Raises PermissionError when root has not started this process, RuntimeError when a way back to root is left.
    """
    act_as(account)
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


class Ids(TypedDict, total=False):
    """Arguments of ``subprocess.Popen``."""

    user: int
    group: int


def as_started() -> Ids:
    """For a process to be made: that it has root's rights, where root has started this one."""
    return {"user": 0, "group": 0} if root_started() and not is_root() else {}


def obeyed_account(paths: Paths, api: ApiConfig) -> Account | None:
    """The account that processes of ``paths`` are to work as; ``None``: as who they are.

    ``drop_privileges: no`` counts where only root can have written it; otherwise it would be the service user's way to
    become root. Raises ConfigError where it does not count.
    """
    account = find_account() if root_started() else None
    if account is None or api.drop_privileges:
        return account
    if not is_roots_alone(account, paths.root) and (open_to := first_writable(account, paths.api_config)):
        allowed = (
            f"yes, as long as the user {account.name} may write to {open_to}: "
            f"chown root {open_to} && chmod g-w,o-w {open_to}"
        )
        raise ConfigError(str(paths.api_config), "drop_privileges", "no", allowed, code=2000)
    return None


def is_roots_alone(account: Account, path: Path) -> bool:
    """Whether ``account`` may neither enter the folder ``path`` nor change that, nor what its name leads to.

    Who owns a folder can close it to itself, and so look like a user that has no business there.
    """
    if first_closed(account, path) is None:
        return False
    ways = (each for way in (path, path.resolve()) for each in (way, *way.parents))
    try:
        return not any(_may_change(account, step) for step in ways)
    except PermissionError:  # asked with the account's own rights: then it is not known
        return False


def first_writable(account: Account, path: Path) -> Path | None:
    """The first that ``account`` may change: a folder on the way to ``path``, or ``path`` itself.

    By owner and mode; ``None`` when it may change none of them.
    """
    return next((step for step in (*reversed(path.parents), path) if _may_change(account, step)), None)


def _may_change(account: Account, step: Path) -> bool:
    status = step.lstat()
    if status.st_uid == account.uid:
        return True
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:  # there others' files stay what they are
        return False
    return bool(status.st_mode & 0o002 or (status.st_gid in account.groups and status.st_mode & 0o020))


def work_for(paths: Paths) -> None:
    """For a command: as root, have the rights of the account that the installation is for from now on, if there is one.

    An installation that the account may not even enter is root's alone.
    """
    account = find_account() if root_started() else None
    if account is None or not paths.root.is_dir() or is_roots_alone(account, paths.root):
        return
    act_as(account)
    try:
        stays = obeyed_account(paths, load_api_config(paths)) is None
    except ConfigError:  # said by whoever uses the configuration
        stays = False
    if stays:
        os.seteuid(0)
        os.setegid(0)


def share(path: Path, mode: int, account: Account | None) -> None:
    """Give ``path`` its ``mode`` and, as root, the group of the service account, which must use it too."""
    os.chmod(path, mode)
    if account is not None and is_root():
        os.chown(path, -1, account.gid)
