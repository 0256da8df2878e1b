"""Changes that are written down, and one that is not committed."""

from pathlib import Path

import pytest

from secmon.security.audit import Actor, audited_write
from secmon.security.role_changes import create_role
from secmon.security.store.security_store import SecurityStore
from tests.manual_clock import ManualClock

ALICE = Actor(user="alice", user_id=104, operation="POST /security/roles", client="10.0.0.7", request="r1")
CLOCK = ManualClock()


def make(store: SecurityStore, path: Path, name: str) -> None:
    audited_write(store, path, ALICE, lambda tx: create_role(tx, name, CLOCK), CLOCK)


def crash_while_making(store: SecurityStore, path: Path, name: str) -> None:
    """Leave the line of a change that is not committed."""

    class Crash(BaseException):
        pass

    class Dying(SecurityStore):
        def _finish(self, *args: object) -> None:
            raise Crash

    dying = Dying(store.path)
    try:
        with pytest.raises(Crash):
            make(dying, path, name)
    finally:
        dying.close()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)
