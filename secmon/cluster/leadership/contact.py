"""The one connection over which a node holds or watches the term: outside any pool, each attempt bounded in time."""

import asyncio
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.leadership.terms import CHANNEL
from secmon.cluster.record.engine import RecordAddress, open_record, unavailable
from secmon.common.errors import SecmonError

T = TypeVar("T")

_THREADS = 4
"""One for the attempt, the others for those that were given up and have not noticed yet."""


class RecordContact:
    """Used on one event loop. A failed or late attempt closes the connection; the next one opens another."""

    def __init__(self, address: RecordAddress, *, attempt_seconds: float, changed: Callable[[], None]) -> None:
        """``changed`` is called when another node may have changed the term, or the connection is lost."""
        self._address, self._seconds, self._changed = address, attempt_seconds, changed
        self._engine = open_record(address, connections=0, statement_seconds=attempt_seconds)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="term")
        self._one_at_a_time = asyncio.Lock()
        self._opening: asyncio.Future[_Opened] | None = None
        self._open: _Opened | None = None

    @property
    def local_address(self) -> str:
        """Address of this host on the way to the database, as last connected."""
        return self._open.local_address if self._open else "127.0.0.1"

    async def do(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a thread, in one transaction. Raises SecmonError 3050; it may have been committed then."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(self._seconds):
                    opened = self._open = await self._connected()
                    self._loop.remove_reader(opened.watched)
                    done = await self._loop.run_in_executor(self._threads, opened.transact, work)
            except TimeoutError:
                self._drop()
                raise SecmonError(3050, f"{self._address.shown}: no answer within {self._seconds:g} s") from None
            except (SQLAlchemyError, psycopg.Error, OSError) as error:
                self._drop()
                raise unavailable(self._address, error) from error
            except asyncio.CancelledError:
                self._drop()
                raise
            self._loop.add_reader(opened.watched, self._readable, opened)
            return done

    async def close(self) -> None:
        """Close the connection."""
        self._drop()
        if self._opening is not None:
            self._opening.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._engine.dispose()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def _connected(self) -> "_Opened":
        """The open connection. Opening goes on when an attempt is over: several hosts may have to be tried."""
        if self._open is not None:
            return self._open
        if self._opening is None:
            self._opening = self._loop.run_in_executor(self._threads, self._connect, self._loop)
        opening = self._opening
        try:
            opened = await asyncio.shield(opening)
        finally:
            if opening.done():
                self._opening = None
        return opened

    def _connect(self, loop: asyncio.AbstractEventLoop) -> "_Opened":
        def heard(notify: psycopg.Notify) -> None:
            if notify.pid != opened.pid:
                loop.call_soon_threadsafe(self._changed)

        opened = _Opened(self._engine.connect())
        opened.driver.add_notify_handler(heard)
        opened.transact(lambda connection: connection.execute(text(f"LISTEN {CHANNEL}")))
        return opened

    def _readable(self, opened: "_Opened") -> None:
        """A notification, or the end of the connection: the next attempt reads it."""
        self._loop.remove_reader(opened.watched)
        self._changed()

    def _drop(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            self._loop.remove_reader(opened.watched)
            opened.cut()


class _Opened:
    """An open connection, and its socket once more: to watch it, and to end what waits for it in a thread."""

    def __init__(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        self._connection = connection
        self.driver: psycopg.Connection[Any] = driver
        self.pid = self.driver.info.backend_pid
        self.watched = socket.socket(fileno=os.dup(self.driver.fileno()))

    @property
    def local_address(self) -> str:
        name = self.watched.getsockname() if self.watched.fileno() >= 0 else None
        return str(name[0]) if isinstance(name, tuple) else "127.0.0.1"

    def transact(self, work: Callable[[Connection], T]) -> T:
        """One transaction; after an error the connection is closed. Raises SQLAlchemyError."""
        try:
            with self._connection.begin():
                return work(self._connection)
        except BaseException:
            self._connection.invalidate()
            self._connection.close()
            raise

    def cut(self) -> None:
        """End the connection, whatever waits for it."""
        with suppress(OSError):
            self.watched.shutdown(socket.SHUT_RDWR)
        self.watched.close()
