"""The store of record as the daemons of a master use it: recorders of its stores, and of its files."""

from collections.abc import Callable, Set
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.leadership.role_file import read_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress, open_record, unavailable
from secmon.cluster.record.file_record import is_recorded, put_files, recorded_files
from secmon.cluster.record.recorded_stores import RecordedStore
from secmon.cluster.record.recorder import StoreRecorder
from secmon.cluster.record.writes import check_term, prove_term
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Delta, Entry
from secmon.common.paths import Paths
from secmon.config.cluster import StoreOfRecord


def record_address(paths: Paths, store: StoreOfRecord) -> RecordAddress:
    """Where the store of record is, as the configuration says; a relative path of the password is below the root."""
    return RecordAddress(store.url, paths.root / store.password_file if store.password_file else None)


class MastersRecord:
    """One for each process. Nothing is connected before the first change."""

    def __init__(self, paths: Paths, address: RecordAddress) -> None:
        self._paths, self.address = paths, address
        self._engine = open_record(address)

    def held(self) -> Term:
        """The term of this node. Raises SecmonError 3051 when it is not the master."""
        current = read_role(self._paths.role)
        if current.role != "master" or current.term is None:
            raise SecmonError(3051)
        return current.term

    def recorder(self, store: RecordedStore) -> Callable[[Engine], StoreRecorder]:
        """For ``record_with`` of a store."""
        return lambda local: StoreRecorder(store, local, self._engine, self.address, self.held)

    def files(self) -> "FileRecorder":
        return FileRecorder(self._paths.root, self._engine, self.address, self.held)

    def close(self) -> None:
        self._engine.dispose()


class FileRecorder:
    """Records changes of the master's files before workers get them."""

    def __init__(self, root: Path, record: Engine, address: RecordAddress, held: Callable[[], Term]) -> None:
        self._root, self._record, self._address, self._held = root, record, address, held
        self._known: dict[str, Entry] | None = None
        """What is recorded; None when that has to be read again."""

    def paths(self) -> Set[str]:
        """Those of all recorded files. Blocks. Raises SecmonError 3050 and 3051."""
        held = self._held()
        try:
            with self._record.connect() as connection, connection.begin():
                check_term(connection, held)
                return recorded_files(connection).keys()
        except (SQLAlchemyError, OSError) as error:
            raise unavailable(self._address, error) from error

    def put(self, changed: Delta) -> None:
        """Record what is not recorded yet. Blocks.

        Raises SecmonError 3050 and 3051, and FileChanged: nothing is recorded then, and the same can be tried again.
        """
        wanted = {path: entry for path, entry in changed.items() if is_recorded(path)}
        if not wanted:
            return
        held, known, self._known = self._held(), self._known, None
        try:
            with self._record.connect() as connection, connection.begin():
                prove_term(connection, held)
                known = recorded_files(connection) if known is None else known
                new = {path: entry for path, entry in wanted.items() if known.get(path) != entry}
                put_files(connection, self._root, new)
        except (SQLAlchemyError, OSError) as error:
            raise unavailable(self._address, error) from error
        self._known = {path: entry for path, entry in (known | new).items() if entry is not None}
