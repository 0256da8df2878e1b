"""The first version: no store is older. New stores get the tables of ``schema`` at once."""

revision = "0001"
down_revision = None
