"""Groups as folders below ``etc/shared``, and where their merged files are (agent-link.md 7.1, 7.4)."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from secmon.agents.names import DEFAULT_GROUP, GROUP_NAME, group_hash, split_groups
from secmon.common.errors import SecmonError, write_error
from secmon.common.file_io import sync_folder, write_file
from secmon.common.files.categories import FOLDER_MODE
from secmon.common.paths import Paths

AGENT_CONF = "agent.conf"
MERGED = "merged.mg"
AR_CONF = "ar.conf"
TEMPLATE = "agent-template.conf"
FILES_YML = "files.yml"

FILE_MODE = 0o660
AGENT_CONF_TEXT = """\
<agent_config>

  <!-- Configuration that all agents of this group share. -->

</agent_config>
"""

RESERVED = frozenset({AR_CONF, TEMPLATE, FILES_YML})
"""Files of ``etc/shared`` itself: no group can have their names."""


_DELETED = ".deleted+"
"""Prefix of the name of a group's folder while it is being deleted; no group can have such a name."""


class Folders(NamedTuple):
    """The folders in ``etc/shared``: groups, and folders with names that no group can have; each sorted."""

    groups: tuple[str, ...]
    invalid: tuple[str, ...]
    deleted: tuple[str, ...]
    """Left by a deletion that was interrupted."""


def list_folders(paths: Paths) -> Folders:
    """Read the folder. Links and files are not groups. Raises OSError when the folder cannot be read."""
    names = []
    with os.scandir(paths.shared) as found:
        for each in found:
            with suppress(FileNotFoundError):  # deleted meanwhile
                if each.is_dir(follow_symlinks=False):
                    names.append(each.name)
    names.sort()
    groups = tuple(name for name in names if GROUP_NAME.fullmatch(name))
    others = [name for name in names if not GROUP_NAME.fullmatch(name)]
    deleted = tuple(name for name in others if name.startswith(_DELETED))
    return Folders(groups, tuple(name for name in others if name not in deleted), deleted)


def list_groups(paths: Paths) -> tuple[str, ...]:
    """Names of all groups, sorted. Raises SecmonError 1727 when the shared folder cannot be read."""
    try:
        return list_folders(paths).groups
    except OSError as error:
        raise SecmonError(1727, error.strerror) from error


def group_folder(paths: Paths, name: str) -> Path:
    """The folder of a group. Raises SecmonError 1722 for an invalid name."""
    if not GROUP_NAME.fullmatch(name):
        raise SecmonError(1722, name[:300])
    return paths.shared / name


def group_exists(paths: Paths, name: str) -> bool:
    """Whether there is a group of this name: a real folder."""
    if not GROUP_NAME.fullmatch(name):
        return False
    folder = paths.shared / name
    return folder.is_dir() and not folder.is_symlink()


def require_group(paths: Paths, name: str) -> Path:
    """The folder of a group that exists. Raises SecmonError 1710, 1722."""
    folder = group_folder(paths, name)
    if not group_exists(paths, name):
        raise SecmonError(1710, ids=(name,))
    return folder


@contextmanager
def while_group_exists(paths: Paths, name: str) -> Iterator[Path]:
    """The folder of a group that exists. Raises SecmonError 1710, 1722.

    A SecmonError of the block becomes 1710 if the group was deleted meanwhile.
    """
    folder = require_group(paths, name)
    try:
        yield folder
    except SecmonError:
        require_group(paths, name)
        raise


def merged_path(paths: Paths, joined: str) -> Path:
    """The merged file of an agent's groups, given joined by commas: the group's own, or that of the combination."""
    if len(split_groups(joined)) > 1:
        return paths.multigroups / group_hash(joined) / MERGED
    return paths.shared / joined / MERGED


def create_group(paths: Paths, name: str) -> Path:
    """Create the folder of a new group, with ``agent.conf`` from the template; durable.

    Raises SecmonError 1722 (name), 1713 (name of a shared file), 1711 (exists), 1005 (the disk refuses).
    """
    folder = group_folder(paths, name)
    if name in RESERVED:
        raise SecmonError(1713, name)
    if name.lower() == DEFAULT_GROUP and name != DEFAULT_GROUP:
        raise SecmonError(1711, name)
    try:
        folder.mkdir()  # of concurrent calls exactly one succeeds
    except FileExistsError:
        raise SecmonError(1711 if folder.is_dir() else 1713, name) from None
    except OSError as error:
        raise write_error(1005, error, name) from error
    try:
        folder.chmod(FOLDER_MODE)  # whatever the umask is
        write_file(folder / AGENT_CONF, _template(paths), FILE_MODE)
        sync_folder(paths.shared)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise write_error(1005, error, name) from error
    return folder


def delete_group(paths: Paths, name: str) -> None:
    """Delete the folder of a group and its contents; links are not followed. The deletion is atomic for readers.

    Raises SecmonError 1712 for ``default``, 1710, 1722, 1005.
    """
    delete_detached(detach_group(paths, name))


def detach_group(paths: Paths, name: str) -> Path:
    """Rename the folder of a group, for :func:`delete_detached` to delete; durable. Raises as :func:`delete_group`."""
    if name == DEFAULT_GROUP:
        raise SecmonError(1712, ids=(name,))
    folder = require_group(paths, name)
    aside = folder.with_name(f"{_DELETED}{secrets.token_hex(8)}")
    try:
        folder.rename(aside)
        try:
            sync_folder(paths.shared)
        except OSError:
            aside.rename(folder)
            raise
    except OSError as error:
        raise write_error(1005, error, name) from error
    return aside


def delete_detached(*folders: Path) -> None:
    """Delete folders that :func:`detach_group` returned; what cannot be deleted now the builder deletes later."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _template(paths: Paths) -> bytes:
    try:
        return (paths.shared / TEMPLATE).read_bytes()
    except FileNotFoundError:
        return AGENT_CONF_TEXT.encode()
