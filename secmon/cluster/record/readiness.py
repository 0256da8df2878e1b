"""Whether this node could be the master now, looked into before it claims a term, and how far its copies are behind."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, select

from secmon.cluster.record.authority_record import get_authority
from secmon.cluster.record.recorded_stores import REGISTRY, SECURITY
from secmon.cluster.record.schema import rows
from secmon.cluster.record.setup import check_tables
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.sqlite.files import connect

_META = ("store_id", "source", "revision")


class Readiness(NamedTuple):
    """``obstacle``: why this node could not be the master; empty: it could. ``missing``: recorded changes that its
    copies lack."""

    obstacle: str = ""
    missing: int = 0


def readiness(connection: Connection, paths: Paths, cluster_key: str) -> Readiness:
    """Blocks on the disk of this node. Raises SQLAlchemy's DBAPIError."""
    try:
        check_tables(connection, older=True)
        get_authority(connection, cluster_key)
        missing = _missing(connection, SECURITY.name, paths.security_db)
        missing += _missing(connection, REGISTRY.name, paths.agents_db)
    except SecmonError as error:
        return Readiness(error.message)
    return Readiness(missing=missing)


def _missing(connection: Connection, store: str, file: Path) -> int:
    recorded, here = _recorded_meta(connection, store), _meta(file)
    revision = int(recorded.get("revision", 0))
    same = recorded.get("store_id") == (here.get("source") or here.get("store_id"))
    return max(0, revision - int(here.get("revision", 0))) if same else revision


def _recorded_meta(connection: Connection, store: str) -> Mapping[str, str]:
    keys = [f'["{name}"]' for name in _META]
    found = select(rows.c.row).where(rows.c.store == store, rows.c.table == "meta", rows.c.key.in_(keys))
    return {row["name"]: row["value"] for row in connection.execute(found).scalars() if row is not None}


def _meta(file: Path) -> Mapping[str, str]:
    """Of a store of this node; empty when there is none yet. Raises SecmonError 2013 for one that cannot be read."""
    if not file.exists():
        return {}
    try:
        with closing(connect(file)) as connection:
            return dict(connection.execute("SELECT name, value FROM meta").fetchall())
    except sqlite3.Error as error:
        raise SecmonError(2013, f"{file}: {error}") from error
