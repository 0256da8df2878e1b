"""The stores that the master owns: which of their rows are recorded, and how a node's copy is made from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, delete, insert, select, update

from secmon.agents import replica
from secmon.agents.registry import schema as registry
from secmon.agents.registry.entries import ENTRY, Entry, Tombstone
from secmon.agents.registry.store import get, put
from secmon.agents.tasks import schema as tasks
from secmon.common.sqlite.row_capture import Captured, Row, all_columns
from secmon.security.store import schema as security
from secmon.security.store.position import AuditEnd, write_audit_end
from secmon.security.store.replication import known_row


class Contents(NamedTuple):
    """What is recorded of a store at ``revision``: its rows by table, and the keys of those that were deleted."""

    revision: int
    rows: Mapping[str, Sequence[Row]]
    deleted: Mapping[str, Sequence[list[Any]]]

    @property
    def meta(self) -> dict[str, str]:
        """Names and values of the table ``meta``."""
        return {str(row["name"]): str(row["value"]) for row in self.rows.get("meta", ())}


class RecordedStore(NamedTuple):
    """``load`` replaces the recorded rows of a store by others, in a write transaction.

    ``same`` says whether a copy has these rows already, by the identity, revision and digest that both keep.
    ``make_original`` makes a copy that has these rows the original: revisions and the audit log go on where the record
    ends, and the copies of the other nodes follow it.
    """

    name: str
    tables: Sequence[Captured]
    load: Callable[[Connection, Contents], None]
    same: Callable[[Connection, Contents], bool]
    make_original: Callable[[Connection, Contents], None]


_SECURITY_META = ("store_id", "revision", "shared_revision", "audit_end")
_REGISTRY_META = ("store_id", "revision", "digest", "next_id")
_SEQUENCE = Table("sqlite_sequence", MetaData(), Column("name", Text), Column("seq", Integer))
"""SQLite's own: the highest id that a table ever had."""
_ENTRY = (*(column.name for column in ENTRY),)


def _load_security(connection: Connection, contents: Contents) -> None:
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    connection.execute(delete(security.changes))
    for table in reversed(security.REPLICATED.values()):
        connection.execute(delete(table))
    for name, table in security.REPLICATED.items():
        _insert(connection, table, contents.rows.get(name, ()))
    meta = contents.meta
    _set_meta(connection, security.meta, meta | {"log_floor": meta["revision"]})


def _original_security(connection: Connection, contents: Contents) -> None:
    _set_meta(connection, security.meta, {"generation": "0"})  # that of a store which is its own origin
    end = contents.meta.get("audit_end")  # replication leaves it out: a copy has none, or that of an earlier term
    write_audit_end(connection, None if end is None else AuditEnd.parse(end))


def _load_registry(connection: Connection, contents: Contents) -> None:
    """Agents keep their states, which are not recorded: agents report them again."""
    meta, rows = contents.meta, contents.rows
    replica.apply_changes(
        connection,
        replica.RegistryChanges(
            source=meta["store_id"],
            since=None,
            revision=int(meta["revision"]),
            digest=meta["digest"],
            next_id=int(meta["next_id"]),
            entries=_structs(Entry, rows.get("agents", ())),
            tombstones=_structs(Tombstone, rows.get("removed", ())),
        ),
    )


def _structs(kind: Any, rows: Iterable[Row]) -> list[Any]:
    return [kind(**row) for row in sorted(rows, key=lambda row: int(row["id"]))]


def _load_tasks(connection: Connection, contents: Contents) -> None:
    table = tasks.tasks
    connection.execute(delete(table))
    _insert(connection, table, contents.rows.get("tasks", ()))
    ids = [*(int(row["task_id"]) for row in contents.rows.get("tasks", ()))]
    ids += [int(key[0]) for key in contents.deleted.get("tasks", ())]
    connection.execute(delete(_SEQUENCE).where(_SEQUENCE.c.name == "tasks"))
    connection.execute(insert(_SEQUENCE).values(name="tasks", seq=max(ids, default=0)))


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Rows that an earlier release has recorded get the defaults of the columns that they lack."""
    if rows:
        connection.execute(insert(table), [known_row(table, row) for row in rows])


def _set_meta(connection: Connection, meta: Table, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        if not connection.execute(update(meta).where(meta.c.name == name).values(value=value)).rowcount:
            connection.execute(insert(meta).values(name=name, value=value))


def _original_registry(connection: Connection, contents: Contents) -> None:
    source = get(connection, "source")
    if source:
        put(connection, "store_id", source)
        put(connection, "source", "")


def _same_security(connection: Connection, contents: Contents) -> bool:
    here = {row.name: row.value for row in connection.execute(select(security.meta))}
    return all(here.get(name) == contents.meta.get(name) for name in ("store_id", "revision"))


def _same_registry(connection: Connection, contents: Contents) -> bool:
    meta = contents.meta
    source = get(connection, "source") or get(connection, "store_id")
    same = all(get(connection, name) == meta.get(name) for name in ("revision", "digest"))
    return same and source == meta.get("store_id")


SECURITY = RecordedStore(
    "security",
    [
        *(Captured(table, all_columns(table)) for table in security.REPLICATED.values()),
        Captured(security.meta, all_columns(security.meta), only=_SECURITY_META),
    ],
    _load_security,
    _same_security,
    _original_security,
)
REGISTRY = RecordedStore(
    "registry",
    [
        Captured(registry.agents, _ENTRY),
        Captured(registry.removed, all_columns(registry.removed)),
        Captured(registry.meta, all_columns(registry.meta), only=_REGISTRY_META),
    ],
    _load_registry,
    _same_registry,
    _original_registry,
)
TASKS = RecordedStore(
    "tasks",
    [Captured(tasks.tasks, all_columns(tasks.tasks))],
    _load_tasks,
    lambda connection, contents: False,  # copies of it exist on the master alone
    lambda connection, contents: None,
)
RECORDED = (SECURITY, REGISTRY, TASKS)
