"""What responses at this server have done and must be undone: a file each, which survives any end of the process."""

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from secmon.common.errors import os_text
from secmon.common.file_io import read_regular, write_file

log = logging.getLogger("secmon.responses")


class Undo(Struct, frozen=True, kw_only=True):
    """``program`` gets ``message`` again, as ``delete``, at ``due`` (seconds since 1970)."""

    key: str
    """Program and keys, by which a repeat is recognised."""
    program: str
    message: dict[str, object]
    due: float


class PendingUndo:
    """By key. Everything blocks."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._folder = folder
        self._known: dict[str, Undo] = {}
        for file in folder.glob("*.json"):
            try:
                found = msgspec.json.decode(read_regular(file), type=Undo)
                self._known[found.key] = found
            except (msgspec.MsgspecError, OSError) as error:
                log.error("%s: a response is not undone: %s", file, error)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def put(self, undo: Undo) -> None:
        """Remember ``undo``, in place of an earlier one with its key. Raises OSError."""
        write_file(self._file(undo.key), msgspec.json.encode(undo), 0o600)
        self._known[undo.key] = undo

    def remove(self, key: str) -> None:
        """It is undone."""
        self._known.pop(key, None)
        try:
            self._file(key).unlink(missing_ok=True)
        except OSError as error:
            log.error("A response that was undone will be undone again: %s", os_text(error))

    def due(self, now: float) -> Iterator[Undo]:
        """Those whose time has come, at ``now`` in seconds since 1970."""
        return iter([one for one in self._known.values() if one.due <= now])

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
