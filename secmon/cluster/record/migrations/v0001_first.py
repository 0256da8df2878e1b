"""The first version: no store of record is older. A new one gets the tables of ``schema`` at once."""

revision = "0001"
down_revision = None
