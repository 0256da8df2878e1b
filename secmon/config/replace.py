"""Replacing the main configuration: old versions are kept, and a failure restores the file."""

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from secmon.common.errors import SecmonError, write_error
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.checks import invalid, validate_installation

log = logging.getLogger("secmon.configuration")

VERSIONS = 10
"""Dated copies that are kept (manager.md 19, row 11)."""


def backup_path(paths: Paths) -> Path:
    """The version before the present one."""
    return paths.main_config.with_name(f"{paths.main_config.name}.backup")


def versions(paths: Paths) -> list[Path]:
    """The dated copies, oldest first; a name ends in the UTC time at which the version was replaced."""
    name = f"{backup_path(paths).name}-"
    return sorted(each for each in paths.etc.iterdir() if each.name.startswith(name))


def replace_main_config(paths: Paths, *, saved: bytes, new: bytes, now: datetime) -> None:
    """Replace the file ``saved`` by ``new``; owner and mode are kept. Blocks on the disk.

    Other writers through here wait. Raises 1126 when the file is not ``saved`` any more or cannot be written, 1019
    when it cannot be copied aside, 1908 when the installation is not valid with the new file, and restores the old one.
    """
    with _alone(paths):
        if _read(paths.main_config) != saved:
            raise SecmonError(1126, "the file was changed meanwhile; try again")
        copies = _copy_aside(paths, saved, now)
        try:
            _overwrite(paths.main_config, new)
            if problems := validate_installation(paths):
                raise invalid(problems)
        except BaseException as error:
            _bring_back(paths, saved)
            copies[-1].unlink(missing_ok=True)  # a failed upload leaves no version
            if isinstance(error, OSError):
                raise write_error(1126, error, paths.main_config.name) from error
            raise
        _forget_old(paths)


@contextmanager
def _alone(paths: Paths) -> Iterator[None]:
    """Held by one writer of this host at a time; the kernel lets go when its process dies."""
    try:
        descriptor = os.open(paths.run / "main-config.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    except OSError as error:
        raise write_error(1126, error, "var/run/main-config.lock") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _copy_aside(paths: Paths, saved: bytes, now: datetime) -> list[Path]:
    backup = backup_path(paths)
    copies = [backup, backup.with_name(f"{backup.name}-{now:%Y%m%dT%H%M%S.%fZ}")]
    try:
        for copy in copies:
            _write_like(paths.main_config, copy, saved)
    except OSError as error:
        raise write_error(1019, error, backup.name) from error
    return copies


def _overwrite(path: Path, data: bytes) -> None:
    _write_like(path, path, data)


def _write_like(model: Path, path: Path, data: bytes) -> None:
    """Write ``path`` with the mode and owner of ``model``; only root can give a file to another user."""
    status = model.stat()
    uid = status.st_uid if os.geteuid() == 0 else None
    write_file(path, data, stat.S_IMODE(status.st_mode), uid, status.st_gid)


def _bring_back(paths: Paths, saved: bytes) -> None:
    if _read(paths.main_config) == saved:
        return
    try:
        _overwrite(paths.main_config, saved)
    except OSError as error:
        log.critical(
            "the previous main configuration could not be restored (%s): copy %s", error.strerror, backup_path(paths)
        )


def _forget_old(paths: Paths) -> None:
    for old in versions(paths)[:-VERSIONS]:
        try:
            old.unlink()
        except OSError as error:
            log.warning("old version %s could not be removed: %s", old, error.strerror)
