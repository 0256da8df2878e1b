"""Connections to the store of record: bounded in number and in time, to the primary only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import conninfo, errors
from sqlalchemy import Engine, NullPool, QueuePool, create_engine, exc

from secmon.cluster.record.connection_faults import reason_of
from secmon.common.errors import SecmonError, write_error
from secmon.common.sqlite.faults import StoreFault

NO_RECORD = "the database holds no store of record: run secmon store migrate on the master"
APPLICATION = "secmon"
"""The name that sessions have in the database."""
_CONNECT_SECONDS = 2
_DEAD_PEER_MS = 4000


class RecordAddress(NamedTuple):
    """Where the store of record is: a libpq URL without a password, and the file that holds the password."""

    url: str
    password_file: Path | None = None

    @property
    def shown(self) -> str:
        """Hosts and database, for messages."""
        found = conninfo.conninfo_to_dict(self.url)
        return f"{found.get('host') or found.get('hostaddr') or 'local socket'}/{found.get('dbname') or ''}"


def open_record(address: RecordAddress, *, connections: int = 2, statement_seconds: float = 3.0) -> Engine:
    """An engine on the primary at ``address``; connects at the first use.

    ``connections``: at most so many at once; 0: each use opens one and closes it. A statement that takes longer than
    ``statement_seconds``, or waits as long for a lock, fails; so does a transaction that is idle for as long: a paused
    master does not keep others from taking over. A peer that is gone is found within seconds.
    """
    bounds = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    options = " ".join(f"-c {bound}={int(statement_seconds * 1000)}" for bound in bounds)

    def connect() -> Any:
        return psycopg.connect(
            address.url,
            password=_password(address),
            target_session_attrs="read-write",
            connect_timeout=_CONNECT_SECONDS,
            application_name=APPLICATION,
            options=options,
            tcp_user_timeout=_DEAD_PEER_MS,
            keepalives_idle=3,
            keepalives_interval=1,
            keepalives_count=3,
        )

    pool: dict[str, Any] = {"poolclass": NullPool}
    if connections:
        bounded = {"pool_size": connections, "max_overflow": 0, "pool_timeout": statement_seconds}
        # A connection that broke since its last use costs no change: it is tried first.
        pool = {"poolclass": QueuePool, "pool_pre_ping": True, **bounded}
    return create_engine("postgresql+psycopg://", creator=connect, hide_parameters=True, **pool)


@contextmanager
def record_at(address: RecordAddress, *, statement_seconds: float = 3.0) -> Iterator[Engine]:
    """As ``open_record``, for one piece of work: no connection is left at its end.

    What fails becomes a SecmonError: 3050 for the database, 1005 and 1021 for the disk of this node, and what a store
    of this node says of itself.
    """
    engine = open_record(address, connections=0, statement_seconds=statement_seconds)
    try:
        yield engine
    except StoreFault as fault:
        raise fault.as_error() from fault
    except exc.SQLAlchemyError as error:
        raise unavailable(address, error) from error
    except OSError as error:
        raise write_error(1005, error, os.fspath(error.filename or "a file of this node")) from error
    finally:
        engine.dispose()


def _password(address: RecordAddress) -> str | None:
    """Read at each connection, so that a change needs no restart. Raises OSError."""
    return None if address.password_file is None else address.password_file.read_text().strip()


def unavailable(address: RecordAddress, error: BaseException) -> SecmonError:
    """Why the store of record cannot be used now."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    if isinstance(cause, errors.UndefinedTable | errors.InvalidSchemaName):
        return SecmonError(3050, f"{address.shown}: {NO_RECORD}")
    return SecmonError(3050, f"{address.shown}: {reason_of(cause)}")
