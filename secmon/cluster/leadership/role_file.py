"""The node's role of the moment, as ``secmon-leaderd`` has written it, for the other daemons and the commands."""

from pathlib import Path
from typing import Literal

import msgspec

from secmon.cluster.leadership.term import Term
from secmon.common.file_io import write_file

Role = Literal["master", "worker"]


class CurrentRole(msgspec.Struct, frozen=True):
    """``term`` is the current one; None before the first is known. ``reason`` is that of the last change."""

    role: Role
    term: Term | None = None
    reason: str = ""


_UNKNOWN = CurrentRole("worker")


def read_role(path: Path) -> CurrentRole:
    """The role; that of a worker without a master when nothing is written yet, or what is written cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CurrentRole)
    except (OSError, msgspec.DecodeError):
        return _UNKNOWN


def start_as_worker(path: Path) -> None:
    """A node that starts is not the master, whatever it was: the store of record decides again. Raises OSError."""
    before = read_role(path)
    if before.role == "master":
        write_role(path, msgspec.structs.replace(before, role="worker"))


def write_role(path: Path, role: CurrentRole) -> None:
    """Replace the file, whole or not at all. Raises OSError."""
    write_file(path, msgspec.json.encode(role), 0o640)
