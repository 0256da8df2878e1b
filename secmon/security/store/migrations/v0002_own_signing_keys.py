"""Each node signs tokens with a key of its own, whose private half leaves no node.

Before, one key was on every node. It is dropped, and with it the change log, which remembers it: replicas follow by a
snapshot, as their content differs. The store of a master gets a new key; tokens that were signed with the old one end.
"""

import sqlalchemy as sa
from alembic import op

from secmon.common.clock import SystemClock
from secmon.security.signing_keys import new_signing_key

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_table("signing_keys")
    signing_keys = op.create_table(
        "signing_keys",
        sa.Column("kid", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("public_pem", sa.Text, nullable=False),
        sa.Column("created", sa.Integer, nullable=False),
        sa.Column("retired_at", sa.Integer),
    )
    private_keys = op.create_table(
        "private_keys", sa.Column("kid", sa.Text, primary_key=True), sa.Column("pem", sa.Text, nullable=False)
    )
    op.execute("DELETE FROM changes")
    op.execute("UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'revision') WHERE name = 'log_floor'")
    if _is_masters():
        key = new_signing_key(SystemClock())
        row = {"kid": key.kid, "node": "", "public_pem": key.public_pem, "created": key.created, "retired_at": None}
        op.bulk_insert(signing_keys, [row])
        op.bulk_insert(private_keys, [{"kid": key.kid, "pem": key.private_pem}])


def _is_masters() -> bool:
    """Whether the store is its own origin: it has an identity, and no snapshot was ever applied."""
    values = op.get_bind().execute(sa.text("SELECT name, value FROM meta")).all()
    meta: dict[str, str] = {name: value for name, value in values}  # noqa: C416 - typed rows
    return meta["store_id"] != "" and meta["generation"] == "0"
