"""Tables of the agent store (agent-link.md 0.4).

A row of ``agents`` has two halves with different writers. The registry half (``REGISTRY``) is written by the master and
copied to every node. The state half (``STATE``) is written by the node that an agent is connected to; workers report it
to the master. ``removed`` keeps the agents that were, so that their ids are never given out again.
"""

from pathlib import Path
from typing import Literal

from sqlalchemy import Column, ForeignKey, Index, Integer, MetaData, Table, Text, text

from secmon.common.sqlite.schema import StoreSchema

Status = Literal["never_connected", "pending", "active", "disconnected"]
ConfigStatus = Literal["synced", "not synced"]

metadata = MetaData()

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
"""``store_id``, ``created`` (seconds since 1970), ``schema``, ``revision`` (of the registry),
``digest`` (of the registry), ``next_id``, ``sequence`` (of states)."""

agents = Table(
    "agents",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # the registry's half
    Column("name", Text, nullable=False),
    Column("register_ip", Text, nullable=False),  # address, CIDR or "any"
    Column("internal_key", Text, nullable=False),
    Column("date_add", Integer, nullable=False),  # seconds since 1970
    Column("group", Text),  # names joined by commas, lowest priority first; null before the first assignment
    Column("group_hash", Text),  # 8 hex digits of SHA-256 of ``group``
    Column("revision", Integer, nullable=False, index=True),  # of the registry, when this half last changed
    # the state's half
    Column("ip", Text),
    Column("os_name", Text),
    Column("os_version", Text),
    Column("os_major", Text),
    Column("os_minor", Text),
    Column("os_codename", Text),
    Column("os_build", Text),
    Column("os_platform", Text),
    Column("os_uname", Text),
    Column("os_arch", Text),
    Column("version", Text),  # with the product: "Name vX.Y.Z"; of a refused startup just "vX.Y.Z"
    Column("config_sum", Text),
    Column("merged_sum", Text),
    Column("manager_host", Text),
    Column("node_name", Text, nullable=False, server_default="unknown"),
    Column("last_keepalive", Integer),  # seconds since 1970
    Column("connection_status", Text, nullable=False, server_default="never_connected"),
    Column("disconnection_time", Integer, nullable=False, server_default="0"),
    Column("group_config_status", Text, nullable=False, server_default="not synced"),
    Column("status_code", Integer, nullable=False, server_default="0"),
    Column("labels", Text),  # JSON array of [key, value], keys with their "!" or "#"
    # this node's own bookkeeping
    Column("changed", Integer, nullable=False, server_default="0"),  # ``meta.sequence`` at the last change of the state
    Column("reported", Integer, nullable=False, server_default="0"),  # value of ``changed`` the master has confirmed
    Index("agents_by_name", "name", unique=True),
    Index("agents_by_folded_name", text("name COLLATE NOCASE")),  # as clients ask for names
    Index("agents_by_address", "register_ip"),
    Index("agents_by_status", "connection_status", "last_keepalive"),
    Index("agents_by_node", "node_name"),
    Index("agents_by_group_hash", "group_hash"),
    Index("agents_to_report", "changed", sqlite_where=text("changed > reported")),
)

agent_groups = Table(
    "agent_groups",
    metadata,
    Column("agent_id", ForeignKey(agents.c.id, ondelete="CASCADE"), primary_key=True),
    Column("priority", Integer, primary_key=True),  # 0 is the lowest
    Column("name", Text, nullable=False),
    Index("agent_groups_by_name", "name", "agent_id"),
    Index("agent_groups_by_folded_name", text("name COLLATE NOCASE"), "agent_id"),  # as clients ask for groups
)
"""``agents.group`` taken apart, for questions about members."""

removed = Table(
    "removed",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("register_ip", Text, nullable=False),
    Column("internal_key", Text, nullable=False),
    Column("purged", Integer, nullable=False, server_default="0"),  # 1: no line in the key file
    Column("revision", Integer, nullable=False, index=True),
)

SCHEMA = StoreSchema(
    metadata=metadata,
    version=1,
    migrations=Path(__file__).parent / "migrations",
    number="SELECT value FROM meta WHERE name = 'schema'",
    set_number="INSERT OR REPLACE INTO meta (name, value) VALUES ('schema', '{}')",
)

REGISTRY = ("name", "register_ip", "internal_key", "date_add", "group", "group_hash")
STATE = (
    "ip",
    "os_name",
    "os_version",
    "os_major",
    "os_minor",
    "os_codename",
    "os_build",
    "os_platform",
    "os_uname",
    "os_arch",
    "version",
    "config_sum",
    "merged_sum",
    "manager_host",
    "node_name",
    "last_keepalive",
    "connection_status",
    "disconnection_time",
    "group_config_status",
    "status_code",
    "labels",
)
