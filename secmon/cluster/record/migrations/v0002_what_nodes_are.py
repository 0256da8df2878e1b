"""Each node says of itself whether it can become master, and the master which generations of the link it speaks.

What nodes said before is dropped: they say it again every few seconds.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name in ("protocol", "min_protocol"):
        op.add_column("term", sa.Column(name, sa.Integer, nullable=False, server_default="0"), schema="secmon")
        op.alter_column("term", name, server_default=None, schema="secmon")
    op.drop_table("candidates", schema="secmon")
    op.create_table(
        "candidates",
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("port", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("preference", sa.Integer, nullable=False),
        sa.Column("obstacle", sa.Text, nullable=False),
        sa.Column("missing", sa.BigInteger, nullable=False),
        sa.Column("protocol", sa.Integer, nullable=False),
        sa.Column("min_protocol", sa.Integer, nullable=False),
        schema="secmon",
    )
