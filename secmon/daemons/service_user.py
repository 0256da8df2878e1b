"""The service user and an installation: whether the daemons run as that user, and which files it can read or change."""

import os
import stat
from pathlib import Path

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.common.privileges import Account, act_as, find_account, is_root, root_started
from secmon.config.api import ApiConfig, load_api_config


def first_unreadable(account: Account, path: Path) -> Path | None:
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


def unreadable_for(account: Account, root: Path) -> Path | None:
    """What keeps ``account`` from running the daemons of the installation ``root``: its own, Python's or our code."""
    found = (first_unreadable(account, path) for path in (root, Path(os.__file__), Path(__file__)))
    return next((path for path in found if path is not None), None)


def service_account(paths: Paths, api: ApiConfig) -> Account | None:
    """The account that processes of ``paths`` are to work as; ``None``: as who they are.

    ``drop_privileges: no`` counts where only root can have written it; otherwise it would be the service user's way to
    become root. Raises ConfigError where it does not count.
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
    """Whether ``account`` may neither enter the folder ``path`` nor change that, nor what its name leads to.

    Who owns a folder can close it to itself, and so look like a user that has no business there.
    """
    if first_unreadable(account, path) is None:
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


def act_as_service_user(paths: Paths) -> None:
    """For a command: as root, have the rights of the account that the installation is for from now on, if there is one.

    An installation that the account may not even enter is root's alone.
    """
    account = find_account() if root_started() else None
    if account is None or not paths.root.is_dir() or is_reserved_for_root(account, paths.root):
        return
    act_as(account)
    try:
        stays = service_account(paths, load_api_config(paths)) is None
    except ConfigError:  # reported by the user of the configuration
        stays = False
    if stays:
        os.seteuid(0)
        os.setegid(0)


def share(path: Path, mode: int, account: Account | None) -> None:
    """Give ``path`` its ``mode`` and, as root, the group of the service account, which must use it too."""
    os.chmod(path, mode)
    if account is not None and is_root():
        os.chown(path, -1, account.gid)
