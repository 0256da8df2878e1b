"""Expected workers, persisted over restarts of the master in ``queue/cluster/known_nodes.json``."""

import logging
from collections.abc import Iterable

import msgspec

from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.master.membership import KnownNode

log = logging.getLogger("secmon.clusterd.membership")


class KnownNodes:
    """Expected workers by name. :meth:`save` blocks on the disk."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.cluster / "known_nodes.json"
        self._nodes = {node.name: node for node in self._load()}
        self._saved = self._encoded()

    def all(self) -> tuple[KnownNode, ...]:
        return tuple(self._nodes.values())

    def put(self, node: KnownNode) -> None:
        self._nodes[node.name] = node

    def forget(self, name: str) -> None:
        self._nodes.pop(name, None)

    def names(self) -> Iterable[str]:
        return self._nodes.keys()

    def save(self) -> None:
        """Write the file if anything has changed. Failures are logged; the next call retries."""
        encoded = self._encoded()
        if encoded == self._saved:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, encoded)
            self._saved = encoded
        except OSError as error:
            log.error("%s cannot be written: %s", self._path, error)

    def _encoded(self) -> bytes:
        return msgspec.json.encode(self.all())

    def _load(self) -> list[KnownNode]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[KnownNode])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:  # no harm: workers join again by themselves
            log.warning("%s cannot be read, expecting no workers until they join: %s", self._path, error)
            return []
