"""The files of the recorded stores on a node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from secmon.agents.registry.store import AgentStore
from secmon.agents.tasks.store import TaskStore
from secmon.cluster.record.recorded_stores import REGISTRY, SECURITY, TASKS, RecordedStore
from secmon.common.paths import Paths
from secmon.common.sqlite.engine import connect_engine
from secmon.security.store.security_store import SecurityStore


def local_stores(paths: Paths) -> Iterator[tuple[RecordedStore, Path]]:
    """Each store with its file, which is made where it is missing."""
    SecurityStore(paths.security_db, writable=False).close()
    agents, tasks = AgentStore(paths.agents_db), TaskStore(paths.tasks_db)
    for store in (agents, tasks):
        store.version()
        store.close()
    yield SECURITY, paths.security_db
    yield REGISTRY, paths.agents_db
    yield TASKS, paths.tasks_db


@contextmanager
def opened(path: Path) -> Iterator[Engine]:
    """An engine of its own on a store that exists."""
    engine = connect_engine(path)
    try:
        yield engine
    finally:
        engine.dispose()
