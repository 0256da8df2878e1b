"""Backups in a folder: their names, and which are deleted."""

import re
from collections.abc import Sequence
from pathlib import Path

from secmon.common.clock import Clock

SUFFIX = ".secmon"


def backup_name(node: str, clock: Clock) -> str:
    """The name of a backup that is made now: node and time (UTC)."""
    return f"{node}-{clock.now():%Y%m%dT%H%M%SZ}{SUFFIX}"


def delete_old(folder: Path, node: str, keep: int) -> Sequence[Path]:
    """Delete all but the latest ``keep`` backups of ``node``; what was deleted. Raises OSError."""
    name = re.compile(rf"{re.escape(node)}-\d{{8}}T\d{{6}}Z{re.escape(SUFFIX)}")
    found = sorted(path for path in folder.iterdir() if name.fullmatch(path.name) and path.is_file())
    old = found[:-keep]
    for path in old:
        path.unlink()
    return old
