"""The components that agents synchronize (docs/reference/agent-data.md 2.1, newer-versions.md 3.1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from sqlalchemy import Column, ColumnElement, Table, and_, bindparam

from secmon.inventory import schema

LEGACY = "legacy"
"""The checksum of inventory rows whose agent sends none: they are in no range (agent-data.md 2.3)."""


@dataclass(frozen=True)
class Component:
    """Rows of an agent that are compared as one set.

    ``name`` is that on the wire. ``key`` is the column by which rows are ordered and named in ranges. ``types``: those
    of the rows in a table that has rows of several types; empty for all.
    """

    name: str
    table: Table
    key: Column[str] = field(hash=False)
    types: tuple[str, ...] = ()

    @property
    def of_agent(self) -> ColumnElement[bool]:
        """The rows of the agent in the parameter ``agent``."""
        mine = self.table.c.agent_id == bindparam("agent")
        return and_(mine, self.table.c.type.in_(self.types)) if self.types else mine

    @property
    def in_ranges(self) -> ColumnElement[bool]:
        """The rows of the agent that ranges are formed of."""
        return self.of_agent if self.types else and_(self.of_agent, self.table.c.checksum.notin_(["", LEGACY]))


def _entries(name: str, *types: str) -> Component:
    # Agents that call the path of a file or of an entry their key have no other name for it: full_path is the path.
    return Component(name, schema.fim_entries, schema.fim_entries.c.full_path, types)


def _scanned(name: str, table: Table) -> Component:
    key = next(column for column in table.primary_key if column.name != "agent_id")
    return Component(f"syscollector_{name}", table, key)


COMPONENTS: Mapping[str, Component] = {
    component.name: component
    for component in (
        _entries("fim_file", "file"),
        _entries("fim_registry_key", "registry_key"),
        _entries("fim_registry_value", "registry_value"),
        _entries("fim_registry", "registry_key", "registry_value"),
        _entries("syscheck", "file", "registry_key", "registry_value"),
        _scanned("hwinfo", schema.hardware),
        _scanned("osinfo", schema.operating_systems),
        _scanned("packages", schema.packages),
        _scanned("hotfixes", schema.hotfixes),
        _scanned("processes", schema.processes),
        _scanned("ports", schema.ports),
        _scanned("network_iface", schema.network_interfaces),
        _scanned("network_protocol", schema.network_protocols),
        _scanned("network_address", schema.network_addresses),
        _scanned("users", schema.users),
        _scanned("groups", schema.user_groups),
        _scanned("services", schema.services),
        _scanned("browser_extensions", schema.browser_extensions),
    )
}
"""By their name on the wire."""

SYNCHRONIZED: Iterable[Table] = frozenset(component.table for component in COMPONENTS.values())
"""The tables of all components."""


@cache
def components_with(table: Table, row_type: str | None) -> tuple[str, ...]:
    """Names of the components that rows of ``table`` with type ``row_type`` belong to; without a type: all of it."""
    return tuple(
        component.name
        for component in COMPONENTS.values()
        if component.table is table and (row_type is None or not component.types or row_type in component.types)
    )
