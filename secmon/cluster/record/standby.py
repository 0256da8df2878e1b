"""Commits that wait for a synchronous standby."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from psycopg import Connection as Driver
from psycopg.errors import Diagnostic
from sqlalchemy import Connection


@contextmanager
def unconfirmed(connection: Connection, seconds: float) -> Iterator[list[str]]:
    """Bounds a commit on ``connection`` to ``seconds``, and collects the warnings of the block.

    The time-out of statements does not bound the wait of a commit for its standby. When the wait is cancelled, the
    commit is answered with success and a warning: it is on the primary alone (PostgreSQL, "Synchronous Replication").
    """
    warnings: list[str] = []

    def note(diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(diagnostic.message_primary or "")

    driver = connection.connection.driver_connection
    assert isinstance(driver, Driver), "it is open"
    driver.add_notice_handler(note)
    limit = Timer(seconds, driver.cancel)
    limit.start()
    try:
        yield warnings
    finally:
        limit.cancel()
        driver.remove_notice_handler(note)
