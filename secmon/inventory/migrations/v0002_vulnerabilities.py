"""Tables for vulnerabilities. All agents with packages wait for their first scan."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "vulnerabilities",
        sa.Column("agent_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reference", sa.Text, primary_key=True),
        sa.Column("cve", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text) for name in ("type", "status", "name", "version", "architecture", "severity")),
        *(sa.Column(name, sa.Text) for name in ("external_references", "condition", "title", "published", "updated")),
        sa.Column("ecosystem", sa.Text),
        *(sa.Column(name, sa.Integer) for name in ("detection_time", "solved_time")),
        *(sa.Column(name, sa.Float) for name in ("cvss2_score", "cvss3_score")),
        sqlite_with_rowid=False,
    )
    solved = sa.text("solved_time IS NOT NULL")
    op.create_index("vulnerabilities_solved", "vulnerabilities", ["solved_time"], sqlite_where=solved)
    op.create_table(
        "vulnerability_scans",
        sa.Column("agent_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("feeds", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("last_full", "last_partial", "requested")),
    )
    op.create_table(
        "vulnerability_marks",
        sa.Column("agent_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("item", sa.Text, primary_key=True),
        sa.Column("marked", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "pending_events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("event", sa.LargeBinary, nullable=False),
    )
    op.execute("INSERT INTO vulnerability_marks SELECT DISTINCT agent_id, '', 0 FROM packages")
