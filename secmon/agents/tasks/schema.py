"""The table of tasks (agent-link.md 10.7)."""

from pathlib import Path

from sqlalchemy import Column, Index, Integer, MetaData, Table, Text

from secmon.common.sqlite.schema import StoreSchema

metadata = MetaData()

tasks = Table(
    "tasks",
    metadata,
    Column("task_id", Integer, primary_key=True),
    Column("agent_id", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("module", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("create_time", Integer, nullable=False),
    Column("last_update_time", Integer),
    Column("status", Text, nullable=False),
    Column("error_message", Text),
    Column("work", Text, nullable=False),  # JSON of ``Work``
    Index("tasks_by_agent", "agent_id", "task_id"),
    Index("tasks_by_status", "status", "node"),
    Index("tasks_by_age", "create_time"),
    sqlite_autoincrement=True,  # an id is never given out again
)

SCHEMA = StoreSchema(
    metadata=metadata,
    version=1,
    migrations=Path(__file__).parent / "migrations",
    number="PRAGMA user_version",
    set_number="PRAGMA user_version = {}",
)
