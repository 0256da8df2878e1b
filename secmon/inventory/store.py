"""The store of the inventory: one SQLite file on each node, with the rows of the agents that report there."""

from pathlib import Path

from secmon.common.sqlite.lazy_store import LazyStore
from secmon.common.sqlite.schema import open_store
from secmon.inventory.schema import SCHEMA


class InventoryStore(LazyStore):
    """The inventory at ``path``. A loss of power may lose the last commits; agents synchronize them again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda: open_store(path, SCHEMA, synchronous="NORMAL"))


def store_bytes(path: Path) -> int:
    """Bytes of the store and of its log of changes."""
    files = [path, path.with_name(f"{path.name}-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
