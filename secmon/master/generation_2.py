"""What workers of generation 2 of the link are sent of the security state.

They refuse a change or a snapshot with a table that they do not know, and compare digests whatever the tables are.
"""

from collections.abc import Sequence

from msgspec import structs

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.security.store.replication import Change, Snapshot
from secmon.security.store.schema import SINCE_GENERATION_3

GENERATION = 2
_TABLES_VERSION = 2
"""Version of their tables."""


def known_changes(changes: Sequence[Change]) -> list[Change]:
    """The changes without those of tables that they do not know."""
    return [change for change in changes if change.table not in SINCE_GENERATION_3]


def known_snapshot(snapshot: Snapshot) -> Snapshot:
    """The snapshot without those tables."""
    return structs.replace(
        snapshot,
        schema_version=_TABLES_VERSION,
        columns={name: columns for name, columns in snapshot.columns.items() if name not in SINCE_GENERATION_3},
        tables={name: rows for name, rows in snapshot.tables.items() if name not in SINCE_GENERATION_3},
    )


def known_position(position: pb.Position) -> pb.Position:
    """The position without the digest, which is of all tables."""
    return pb.Position(epoch=position.epoch, revision=position.revision)
