"""The ATT&CK file in force on a node: the imported one, else the one of the product."""

import logging
import threading
from pathlib import Path

from secmon.common.errors import os_text
from secmon.common.paths import Paths
from secmon.config.default_ruleset import default_ruleset_folder
from secmon.knowledge.attack.knowledge_base import AttackTechnique, KnowledgeBase, build
from secmon.knowledge.attack.records import AttackError, read_records

log = logging.getLogger("secmon.knowledge")

_Version = tuple[str, int, int, int]


def shipped_file() -> Path:
    """The file of the product: everything but descriptions."""
    return default_ruleset_folder() / "attack/attack.jsonl.gz"


class AttackSource:
    """Reads the file at the first use, and again after a change. A damaged file leaves the last good content in force.

    For use by several threads.
    """

    def __init__(self, paths: Paths) -> None:
        self._files = (paths.attack, shipped_file())
        self._lock = threading.Lock()
        self._version: _Version | None = None
        self._base: KnowledgeBase | None = None
        self.generation = 0
        """Grows with each change of the content."""

    def current(self) -> KnowledgeBase:
        """The content of now. Blocks on the disk. Raises AttackError when no file can be used."""
        with self._lock:
            version = next((found for path in self._files if (found := _version(path)) is not None), None)
            if version != self._version or self._base is None:
                self._version = version
                self._read()
            if self._base is None:
                raise AttackError("neither an imported file nor that of the product can be read")
            return self._base

    def technique(self, external_id: str) -> AttackTechnique | None:
        """A technique that is in use. Blocks on the disk when the file has changed."""
        try:
            return self.current().techniques.get(external_id)
        except AttackError:
            return None

    def _read(self) -> None:
        """Read the first file there is; when it is damaged and there is no content yet, the next one."""
        for path in self._files:
            try:
                self._base = build(read_records(path.read_bytes()))
            except FileNotFoundError:
                continue
            except (OSError, AttackError) as error:
                reason = os_text(error) if isinstance(error, OSError) else str(error)
                log.error("%s cannot be used as ATT&CK: %s", path, reason)
                if self._base is not None:
                    return
                continue
            self.generation += 1
            return


def _version(path: Path) -> _Version | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
