"""The store of tasks: one SQLite file on the master."""

from pathlib import Path

from secmon.agents.tasks.schema import SCHEMA
from secmon.common.sqlite.lazy_store import LazyStore
from secmon.common.sqlite.schema import open_store


class TaskStore(LazyStore):
    """The tasks at ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda: open_store(path, SCHEMA))
