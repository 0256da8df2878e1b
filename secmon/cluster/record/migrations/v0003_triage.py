"""Rows of silences and acknowledgements of alerts are recorded too; no table changes for them.

Nodes that do not know these rows take no term from here on: they would lose them.
"""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing to do."""
