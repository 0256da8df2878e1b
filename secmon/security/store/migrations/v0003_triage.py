"""Silences and acknowledgements of alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "silences",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("agent_group", sa.Text),
        sa.Column("since", sa.Integer, nullable=False),
        sa.Column("until", sa.Integer, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", sa.Integer, nullable=False),
    )
    op.create_table(
        "acknowledgements",
        sa.Column("alert_id", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("raised", sa.Integer, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("time", sa.Integer, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
    )
