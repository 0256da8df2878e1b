"""What a store says when its disk or its file fails, in the words of an operator and with an error's code."""

import os
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from secmon.common.errors import SecmonError, is_full

DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Primary result codes of SQLite for a file that is not whole."""
_DISK = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
_ROOM = 1 << 20
"""Bytes without which SQLite cannot begin to work: it then reports an error of the disk, not a full one."""


class StoreFault(SQLAlchemyError):
    """A failure of the disk or the file, not of a statement. The text names the file and says what to do."""

    def __init__(self, code: int, path: Path, cause: BaseException) -> None:
        self.error_code = code
        self.reason = f"{path}: {cause}"
        super().__init__(f"{self.as_error().message}. {self.as_error().remediation}")

    def as_error(self) -> SecmonError:
        """The error for the caller of the failed operation."""
        return SecmonError(self.error_code, self.reason)


class RecordFault(StoreFault):
    """A transaction that the store of record did not take: 3050 to 3053. The file of the node is whole."""

    def __init__(self, code: int, reason: str) -> None:
        self.error_code = code
        self.reason = reason
        SQLAlchemyError.__init__(self, f"{self.as_error().message}. {self.as_error().remediation}")


def fault_of(path: Path, error: BaseException | None) -> StoreFault | None:
    """The fault behind an error of the driver; None for those that are about a statement, or about a lock."""
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code in DAMAGE:
        return StoreFault(2013, path, error)
    if code == sqlite3.SQLITE_FULL or (code in _DISK and _without_room(path)):
        return StoreFault(1021, path, error)
    return StoreFault(1005, path, error) if code in _DISK else None


def storage_error(error: BaseException) -> SecmonError | None:
    """What to tell of an unforeseen error that is the disk's: a full one, or a store that cannot be used."""
    if isinstance(error, StoreFault):
        return error.as_error()
    return SecmonError(1021, str(error)) if isinstance(error, OSError) and is_full(error) else None


def storage_reason(error: BaseException) -> str:
    """What the driver says, for the log: the same failure reads the same, whichever statement met it."""
    return str(error.orig) if isinstance(error, DBAPIError) else str(error)


def _without_room(path: Path) -> bool:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM
