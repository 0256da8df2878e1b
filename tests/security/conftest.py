"""A filled store, cheaply: the default contents are written once and copied."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.security.origin import initialise
from secmon.security.rbac.model import User
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.view import SecurityView
from secmon.security.tokens import Tokens
from tests.manual_clock import ManualClock
from tests.security.store.rows import link_role, put_role, put_user

PASSWORD = "Quarry-7!lamp"


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database with the default contents; user 100 ``mira`` with roles 100 and 101, both empty."""
    path = tmp_path_factory.mktemp("filled") / "security.db"
    store = SecurityStore(path)
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    with store.write() as tx:
        put_user(tx, tx.next_id(schema.users), "mira")
        for position in (0, 1):
            role = tx.next_id(schema.roles)
            put_role(tx, role)
            link_role(tx, 100, role, position)
    store.close()
    return path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[SecurityStore]:
    path = tmp_path / "security.db"
    shutil.copy(filled, path)
    opened = SecurityStore(path)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(clock: ManualClock) -> Tokens:
    return Tokens(clock)


def find(view: SecurityView, name: str) -> User:
    user = view.user(name)
    assert user is not None
    return user


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs/audit/security.log"
