"""Statistics of ``secmon-db`` in their public shape (manager.md 10.3)."""

from collections.abc import Mapping, Sequence
from typing import Any

_TABLES: Mapping[str, Sequence[str]] = {
    "ciscat": ("ciscat",),
    "rootcheck": ("rootcheck",),
    "sca": ("sca",),
    "sync": ("dbsync",),
    "syscheck": ("fim_file", "fim_registry", "fim_registry_key", "fim_registry_value", "syscheck"),
    "syscollector": (
        "syscollector_browser_extensions",
        "syscollector_groups",
        "syscollector_hotfixes",
        "syscollector_hwinfo",
        "syscollector_network_address",
        "syscollector_network_iface",
        "syscollector_network_protocol",
        "syscollector_osinfo",
        "syscollector_packages",
        "syscollector_ports",
        "syscollector_processes",
        "syscollector_services",
        "syscollector_users",
    ),
}
"""What messages are about, by groups of the public answer."""
_DEPRECATED = ("hardware", "hotfix", "netinfo", "osinfo", "package", "port", "process")
"""Messages of agents before 4.2."""


def store_metrics(counters: Mapping[str, Any]) -> dict[str, Any]:
    """``metrics`` from the counters of the daemon: messages stored, transactions, and milliseconds of both.

    The other databases of the public answer belong to other daemons here, and are left out.
    """
    messages = _tables(counters, "inventory.handled.", 1)
    milliseconds = _tables(counters, "inventory.handled_us.", 1000)
    removed = counters.get("inventory.agents_removed", 0)
    transactions = counters.get("inventory.transactions", 0)
    queries = {"begin": transactions, "commit": transactions, "remove": removed}
    total = counters.get("inventory.transaction_us", 0) // 1000
    return {
        "queries": _tree("received", counters.get("inventory.messages", 0), queries, messages),
        "time": _tree("execution", total, {"commit": max(0, total - _sum(milliseconds))}, milliseconds),
    }


def _tree(root: str, total: int, database: Mapping[str, int], tables: Mapping[str, Any]) -> dict[str, Any]:
    breakdown = {"agent": total, "agent_breakdown": {"db": database, "tables": tables}}
    return {root: total, f"{root}_breakdown": breakdown}


def _tables(counters: Mapping[str, Any], prefix: str, divisor: int) -> dict[str, Any]:
    def values(kinds: Sequence[str]) -> dict[str, Any]:
        return {kind: counters.get(prefix + kind, 0) // divisor for kind in kinds}

    tables: dict[str, Any] = {table: values(kinds) for table, kinds in _TABLES.items()}
    tables["syscollector"]["deprecated"] = values(_DEPRECATED)
    return tables


def _sum(tree: Mapping[str, Any]) -> int:
    return sum(_sum(value) if isinstance(value, dict) else value for value in tree.values())
