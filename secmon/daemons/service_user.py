"""The service user and an installation: whether the daemons run as that user, and which files it can read or change."""

import os
import stat
from pathlib import Path

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.common.privileges import Account, act_as, find_account, is_root, root_started
from secmon.config.api import ApiConfig, load_api_config


def first_unreadable(account: Account, path: Path) -> Path | None:
    """The first of ``path`` and its parent folders, from the root, that ``account`` cannot enter or read by its mode.

    ``None`` when it can read all. Access lists are not considered.
    """
    for step in [*reversed(path.resolve().parents), path.resolve()]:
        status = step.stat()
        shift = 6 if status.st_uid == account.uid else 3 if status.st_gid in account.groups else 0
        wanted = 0o1 if step.is_dir() else 0o4
        if not status.st_mode >> shift & wanted:
            return step
    return None


def unreadable_for(account: Account, root: Path) -> Path | None:
    """The first path that ``account`` cannot read of those the daemons need: ``root``, Python, this code."""
    found = (first_unreadable(account, path) for path in (root, Path(os.__file__), Path(__file__)))
    return next((path for path in found if path is not None), None)


def service_account(paths: Paths, api: ApiConfig) -> Account | None:
    """The account that processes of ``paths`` work as; ``None``: they keep their user.

    ``drop_privileges: no`` is accepted only from a file that root alone can write; otherwise the service user could
    become root with it. Raises ConfigError if it is not accepted.
    """
    account = find_account() if root_started() else None
    if account is None or api.drop_privileges:
        return account
    if not is_reserved_for_root(account, paths.root) and (open_to := first_writable(account, paths.api_config)):
        allowed = (
            f"yes, as long as the user {account.name} may write to {open_to}: "
            f"chown root {open_to} && chmod g-w,o-w {open_to}"
        )
        raise ConfigError(str(paths.api_config), "drop_privileges", "no", allowed, code=2000)
    return None


def is_reserved_for_root(account: Account, path: Path) -> bool:
    """Whether ``account`` can neither enter the folder ``path`` nor change its access, nor replace it.

    Access alone does not show that: the owner of a folder can close it to itself.
    """
    if first_unreadable(account, path) is None:
        return False
    ways = (each for way in (path, path.resolve()) for each in (way, *way.parents))
    try:
        return not any(_may_change(account, step) for step in ways)
    except PermissionError:  # this process has the account's own rights, and cannot see it
        return False


def first_writable(account: Account, path: Path) -> Path | None:
    """The first of ``path`` and its parent folders, from the root, that ``account`` can change by owner and mode.

    ``None`` when it can change none of them.
    """
    return next((step for step in (*reversed(path.parents), path) if _may_change(account, step)), None)


def _may_change(account: Account, step: Path) -> bool:
    status = step.lstat()
    if status.st_uid == account.uid:
        return True
    # The mode of a link has no meaning; in a sticky folder the entries of others cannot be replaced.
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return False
    return bool(status.st_mode & 0o002 or (status.st_gid in account.groups and status.st_mode & 0o020))


def act_as_service_user(paths: Paths) -> None:
    """For a command that root runs: take the rights of the service user, unless root has reserved the installation."""
    account = find_account() if root_started() else None
    if account is None or not paths.root.is_dir() or is_reserved_for_root(account, paths.root):
        return
    act_as(account)
    try:
        stays = service_account(paths, load_api_config(paths)) is None
    except ConfigError:  # reported where the configuration is used
        stays = False
    if stays:
        os.seteuid(0)
        os.setegid(0)


def share(path: Path, mode: int, account: Account | None) -> None:
    """Give ``path`` its ``mode`` and, as root, the group of ``account``."""
    os.chmod(path, mode)
    if account is not None and is_root():
        os.chown(path, -1, account.gid)
