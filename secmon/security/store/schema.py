"""Tables of the security store (rbac.md 1).

``REPLICATED`` tables are copied to every node; ``meta``, ``changes`` and ``private_keys`` belong to the node.
"""

from pathlib import Path

from sqlalchemy import Boolean, Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

from secmon.common.sqlite.schema import StoreSchema

FIRST_CUSTOM_ID = 100

metadata = MetaData()

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

changes = Table(
    "changes",
    metadata,
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("table", Text, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("row", LargeBinary),
)

users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("username", Text, nullable=False, unique=True),
    Column("password", Text, nullable=False),
    Column("allow_run_as", Boolean, nullable=False),
    Column("created_at", Integer, nullable=False),
)

roles = Table(
    "roles",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", Integer, nullable=False),
)

policies = Table(
    "policies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("policy", Text, nullable=False, unique=True),
    Column("created_at", Integer, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("rule", Text, nullable=False, unique=True),
    Column("created_at", Integer, nullable=False),
)

user_roles = Table(
    "user_roles",
    metadata,
    Column("user_id", ForeignKey(users.c.id), primary_key=True),
    Column("role_id", ForeignKey(roles.c.id), primary_key=True, index=True),
    Column("position", Integer, nullable=False),
)

role_policies = Table(
    "role_policies",
    metadata,
    Column("role_id", ForeignKey(roles.c.id), primary_key=True),
    Column("policy_id", ForeignKey(policies.c.id), primary_key=True, index=True),
    Column("position", Integer, nullable=False),
)

role_rules = Table(
    "role_rules",
    metadata,
    Column("role_id", ForeignKey(roles.c.id), primary_key=True),
    Column("rule_id", ForeignKey(rules.c.id), primary_key=True, index=True),
)

settings = Table("settings", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("kid", Text, primary_key=True),
    Column("node", Text, nullable=False),  # the worker that signs with it; empty: the master
    Column("public_pem", Text, nullable=False),
    Column("created", Integer, nullable=False),
    Column("retired_at", Integer),
)

private_keys = Table(
    "private_keys", metadata, Column("kid", Text, primary_key=True), Column("pem", Text, nullable=False)
)
"""The private halves of this node's signing keys: they leave no node."""

revocations = Table(
    "revocations",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("revision", Integer, nullable=False),
    Column("expires", Integer),
)

silences = Table(
    "silences",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("question", Text, nullable=False),  # which alerts it covers: JSON (alerts/question.py)
    Column("agent_group", Text),  # as its author named it; the question has the members of that moment
    Column("since", Integer, nullable=False),  # milliseconds since 1970
    Column("until", Integer, nullable=False),
    Column("user", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Integer, nullable=False),
)

acknowledgements = Table(
    "acknowledgements",
    metadata,
    Column("alert_id", Text, primary_key=True),
    Column("agent", Text, primary_key=True),  # alerts of different nodes may have the same id
    Column("raised", Integer, nullable=False),  # the time of the alert, in milliseconds since 1970
    Column("user", Text, nullable=False),
    Column("time", Integer, nullable=False),
    Column("comment", Text, nullable=False),
)

sequences = Table(
    "sequences", metadata, Column("name", Text, primary_key=True), Column("next_id", Integer, nullable=False)
)

SCHEMA = StoreSchema(
    metadata=metadata,
    version=3,
    migrations=Path(__file__).parent / "migrations",
    number="SELECT value FROM meta WHERE name = 'schema_version'",
    set_number="INSERT OR REPLACE INTO meta (name, value) VALUES ('schema_version', '{}')",
)

REPLICATED: dict[str, Table] = {
    str(table.name): table
    for table in (
        users,
        roles,
        policies,
        rules,
        user_roles,
        role_policies,
        role_rules,
        settings,
        signing_keys,
        revocations,
        sequences,
        silences,
        acknowledgements,
    )
}
"""In an order in which rows may be inserted: parents first."""

SINCE_GENERATION_3 = frozenset({"silences", "acknowledgements"})
"""Tables that nodes of generation 2 of the link do not know, and do not ignore."""

LINKS: dict[str, tuple[tuple[Table, str], ...]] = {
    "users": ((user_roles, "user_id"),),
    "roles": ((user_roles, "role_id"), (role_policies, "role_id"), (role_rules, "role_id")),
    "policies": ((role_policies, "policy_id"),),
    "rules": ((role_rules, "rule_id"),),
}
"""Links that go when their end goes. The database does not cascade by itself: the change log would miss it."""

_READ_WHEN_NEEDED = frozenset({"users", "user_roles", "sequences", "silences", "acknowledgements"})


def is_shared(table: str, key: tuple[object, ...]) -> bool:
    """Whether a row belongs to the part that views keep whole in memory, unlike rows that exist per user or alert."""
    return table not in _READ_WHEN_NEEDED and (table, *key[:1]) != ("revocations", "user")


def column_names(table: Table) -> tuple[str, ...]:
    """Plain strings, unlike the quoting ones that SQLAlchemy hands out and that no encoder takes."""
    return tuple(str(column.name) for column in table.c)
