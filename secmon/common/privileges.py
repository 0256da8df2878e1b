"""The service user, and the rights of this process.

A process that root has started works with the effective ids of the service user (:func:`act_as`): it opens, creates,
renames and removes files with that user's rights, so that a link in a folder of that user leads no further than the
user itself could go. Only its real id remains root's; :func:`as_root` is for the few steps that need root's rights.
"""

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from secmon.common.file_io import read_regular
from secmon.common.files.tree import open_file, opened_folder

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
    """Have the rights of ``account`` from now on; only :func:`as_root` leads back.

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


class Ids(TypedDict, total=False):
    """Arguments of ``subprocess.Popen``."""

    user: int
    group: int


def root_ids() -> Ids:
    """For a process to be made: that it has root's rights, where root has started this one."""
    return {"user": 0, "group": 0} if root_started() and not is_root() else {}


@contextmanager
def as_root() -> Iterator[None]:
    """Root's rights where root has started this process and has not given them up for good; otherwise no change.

    They hold for all threads: to be used where no other thread opens files. Nothing inside may use a path through a
    folder that the service user can write.
    """
    before = os.geteuid()
    if before == 0 or os.getuid() != 0:
        yield
        return
    os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(before)


def read_protected(root: Path, path: Path) -> bytes:
    """The content of ``path`` below ``root``, a file that an administrator may have kept for root alone.

    What only root may read is read as root when it is root's own and no link leads to it: a user who may write to a
    folder on the way could have made the link. Raises OSError.
    """
    try:
        return read_regular(path, follow=True)
    except PermissionError as refused:
        try:
            with as_root(), opened_folder(root, path.parent.relative_to(root).as_posix()) as folder:
                return _read_roots(open_file(folder, path.name))
        except OSError:
            raise refused from None


def _read_roots(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != 0 or status.st_nlink != 1:
            raise PermissionError
        return file.read()
