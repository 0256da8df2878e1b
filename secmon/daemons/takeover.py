"""What a node does before it becomes master: its stores, audit log and authority become what is recorded."""

import logging
from pathlib import Path

from sqlalchemy import Connection

from secmon.cluster.leadership.term import Term
from secmon.cluster.record.audit_record import bring_log_up_to
from secmon.cluster.record.authority_record import get_authority, put_authority
from secmon.cluster.record.copies import bring_up_to
from secmon.cluster.record.engine import RecordAddress, record_at
from secmon.cluster.record.local_stores import local_stores, opened
from secmon.cluster.record.masters_record import record_address
from secmon.cluster.record.recorded_stores import TASKS
from secmon.cluster.record.schema import SCHEMA
from secmon.cluster.record.setup import check_tables, upgrade_tables
from secmon.cluster.record.writes import check_term, prove_term, read_contents
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.daemons.node_builder import Installation

log = logging.getLogger("secmon.leaderd")

READ_SECONDS = 30.0
"""For a statement that reads a whole store, or a large file."""


def become_master(installation: Installation, term: Term) -> None:
    """Bring the node up to the store of record, in which ``term`` is the current one. Blocks on disk and network.

    Raises SecmonError, also 3051 when the term ends meanwhile; the node is a replica as before then, at most further.
    """
    paths, cluster = installation.paths, installation.main.cluster
    assert cluster.store is not None, "it is asked for nodes with a store of record"
    address = record_address(paths, cluster.store)
    with record_at(address, statement_seconds=READ_SECONDS) as record:
        with record.begin() as connection:
            _migrate_record(connection, term)
        with record.connect() as opened:
            connection = opened.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                check_term(connection, term)
                take_everything(connection, paths, cluster.key, f"before-term-{term.number}")


def _migrate_record(connection: Connection, term: Term) -> None:
    """Bring the tables of an earlier release to those of this one. Nodes of that release take no term afterwards."""
    found = upgrade_tables(connection)
    check_tables(connection)
    check_term(connection, term)  # after the migration has locked the row: it is true when it commits
    if found is not None:
        log.warning(
            "The tables of the store of record were migrated from version %d to %d: "
            "nodes of the release before cannot become master until they are upgraded",
            found,
            SCHEMA.version,
        )


def take_everything(connection: Connection, paths: Paths, cluster_key: str, aside: str) -> None:
    """Stores, audit log and authority of the node become what is recorded; a log that is another one gets ``aside``."""
    _take_stores(connection, paths)
    kept = bring_log_up_to(connection, paths.audit_log, aside)
    if kept is not None:
        log.warning("The audit log of this node was another one than the cluster's: it is kept as %s", kept)
    _take_authority(connection, paths, cluster_key)


def _take_stores(connection: Connection, paths: Paths) -> None:
    for store, path in local_stores(paths):
        contents = read_contents(connection, store.name)
        with opened(path) as local:
            behind = bring_up_to(local, store, contents)
        if behind and store is not TASKS:
            log.info("The copy of the %s was behind; it has revision %d now", store.name, contents.revision)


def _take_authority(connection: Connection, paths: Paths, cluster_key: str) -> None:
    """Use the recorded authority, if there is one."""
    folder, found = paths.cluster_tls, get_authority(connection, cluster_key)
    if found is not None:
        certificate, key = found
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        if not _holds(folder / "ca.key", key) or not _holds(folder / "ca.pem", certificate):
            write_file(folder / "ca.pem", certificate)
            write_file(folder / "ca.key", key, 0o600)


def record_authority(paths: Paths, address: RecordAddress, cluster_key: str, term: Term) -> None:
    """Record this master's authority when none is recorded: it is made when a cluster starts for the first time.

    Blocks. Raises SecmonError 3050 and 3051.
    """
    certificate, key = paths.cluster_tls / "ca.pem", paths.cluster_tls / "ca.key"
    with record_at(address) as record, record.connect() as connection, connection.begin():
        prove_term(connection, term)
        if get_authority(connection, cluster_key) is None:
            put_authority(connection, cluster_key, certificate.read_bytes(), key.read_bytes())


def _holds(path: Path, data: bytes) -> bool:
    return path.exists() and path.read_bytes() == data
