"""Watches the revisions of the nodes' copies."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from secmon.common.paths import Paths
from tests.faults.history import History, Position
from tests.integration.kit import RealNode

_PAUSE_SECONDS = 0.5


def stores(paths: Paths) -> dict[str, Path]:
    return {"security state": paths.security_db, "registry of agents": paths.agents_db}


def meta(store: Path, name: str) -> str:
    """A value of the table ``meta``. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=5)) as connection:
        [value] = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(value)


class RevisionWatch:
    """Notes the revisions in a history, on a thread of its own, while it is entered."""

    def __init__(self, nodes: Sequence[RealNode], history: History) -> None:
        self._nodes, self._history = nodes, history
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "RevisionWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            for node in self._nodes:
                for name, store in stores(node.paths).items():
                    with suppress(sqlite3.OperationalError):  # it is locked: its node starts
                        self._history.positions.append(Position(node.name, name, int(meta(store, "revision"))))
