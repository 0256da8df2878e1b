"""Silences in a store of their own, made for tests."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from secmon.alerts.question import AlertQuestion
from secmon.alerts.silences import Silence, create_silence, in_milliseconds
from secmon.security.store.security_store import SecurityStore
from tests.manual_clock import ManualClock

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def open_master(path: Path) -> SecurityStore:
    path.parent.mkdir(parents=True, exist_ok=True)
    return SecurityStore(path)


def silence(store: SecurityStore, *, seconds: tuple[float, float] = (0, 3600), **question: Any) -> int:
    """A silence from and until so many seconds after noon; its id."""
    since, until = (in_milliseconds(NOON) + int(second * 1000) for second in seconds)
    wanted = Silence(0, AlertQuestion(**question), None, since, until, "admin", "a test", 0)
    with store.write() as tx:
        return create_silence(tx, wanted, ManualClock(NOON)).id
