"""Whether the security store on the disk fits what its node is: a master's is its own and holds users.

Asked before a daemon opens the store, by whoever starts the node too, so that a store that is lost stops the start
instead of being made anew, empty, and published. Plain ``sqlite3``: a supervisor needs no more.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.store.files import connect, folder_lock


class Standing(NamedTuple):
    """What a store says of itself. ``replica``: what it holds came from another master's store ``store_id``."""

    store_id: str
    revision: int
    replica: bool
    users: bool


def check_store(paths: Paths, *, worker: bool) -> None:
    """Raise 2012, which says what to do, when the node cannot work with its security store. Blocks on the disk."""
    reason = misfit(paths, worker=worker)
    if reason is not None:
        raise SecmonError(2012, reason)


def misfit(paths: Paths, *, worker: bool) -> str | None:
    """Why a node of this kind cannot work with its security store, and what to do; None when it can.

    A worker can with any that can be read: it follows its master.
    """
    file, root = paths.security_db, paths.root
    below = file.relative_to(root)
    anew = (
        "put back a backup of the file; or put a worker's copy of it there "
        f"({below} of a worker that is stopped) and run: secmon cluster promote --root {root}; "
        f"or run: secmon user create-defaults --root {root} (begins anew, without the old users)"
    )
    try:
        found = read_standing(file)
    except sqlite3.OperationalError as error:
        return f"{file} cannot be read ({error}): check the owner and the permissions of the file and of its folder"
    except sqlite3.Error as error:
        remedy = f"run: rm {file}* (the master sends its state again)" if worker else anew
        return f"{file} cannot be read ({error}): {remedy}"
    if worker:
        return None
    if found is None:
        return f"{file} is missing: {anew}"
    if not found.users:
        return f"{file} holds no users: {anew}"
    if found.replica:
        return (
            f"{file} is a copy of another master's security state (store {found.store_id}, revision {found.revision}): "
            "let this node be a worker of that master; or, when that master is lost, stop this node and run: "
            f"secmon cluster promote --root {root} (takes the copy over)"
        )
    return None


def read_standing(file: Path) -> Standing | None:
    """What the store in ``file`` says of itself; None when there is no file. A file without tables holds nothing.

    Raises ``sqlite3.DatabaseError`` for a file that is no database, ``OperationalError`` for one that cannot be opened.
    """
    if not file.exists():
        return None
    with _reading(file) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"meta", "users"} <= tables:
            return Standing("", 0, replica=False, users=False)
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        users = connection.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None
    store_id, generation = meta.get("store_id", ""), int(meta.get("generation", 0))
    return Standing(store_id, int(meta.get("revision", 0)), generation > 0 or not store_id, users)


@contextmanager
def _reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that exists; none is ever made."""
    with folder_lock(file.parent), closing(connect(file)) as connection:
        connection.execute("BEGIN")
        yield connection
