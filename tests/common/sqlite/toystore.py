"""A store of notes, whose tables have had three versions."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table, Text

from secmon.common.sqlite.schema import StoreSchema

metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("colour", Text, nullable=False, server_default="blue"),
)
marks = Table("marks", metadata, Column("note", ForeignKey(notes.c.id, ondelete="CASCADE"), primary_key=True))

HEAD = """
import sqlalchemy as sa
from alembic import op

revision = "{}"
down_revision = {}


def upgrade() -> None:
    """
STEPS = {
    "0001": "pass",
    "0002": 'op.add_column("notes", sa.Column("colour", sa.Text, nullable=False, server_default="blue"))',
    "0003": (
        'with op.batch_alter_table("notes", recreate="always") as table:\n'
        '        table.alter_column("words", new_column_name="text")'
    ),
}


def schema_of(folder: Path, **steps: str) -> StoreSchema:
    """The third version, with its migrations in ``folder``; ``steps`` replace the bodies of migrations."""
    folder.mkdir(exist_ok=True)
    before = None
    for revision, body in {**STEPS, **{name.removeprefix("v"): body for name, body in steps.items()}}.items():
        (folder / f"v{revision}.py").write_text(HEAD.format(revision, repr(before)) + body + "\n")
        before = revision
    return StoreSchema(
        metadata=metadata,
        version=3,
        migrations=folder,
        number="PRAGMA user_version",
        set_number="PRAGMA user_version = {}",
    )


def make_first_version(path: Path) -> None:
    """A store as the first version left it, from before alembic, with a note and its mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT NOT NULL);"
            "CREATE TABLE marks (note INTEGER PRIMARY KEY REFERENCES notes (id) ON DELETE CASCADE);"
            "INSERT INTO notes VALUES (7, 'seven'); INSERT INTO marks VALUES (7); PRAGMA user_version = 1;"
        )


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()
