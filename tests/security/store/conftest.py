"""Stores on real files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secmon.security.store.security_store import SecurityStore

OpenStore = Callable[..., SecurityStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Opens ``name`` in the test's folder; closed at the end."""
    opened: list[SecurityStore] = []

    def build(name: str = "security.db", *, writable: bool = True, kept_revisions: int = 1000) -> SecurityStore:
        store = SecurityStore(tmp_path / name, writable=writable, kept_revisions=kept_revisions)
        opened.append(store)
        return store

    yield build
    for store in opened:
        store.close()
