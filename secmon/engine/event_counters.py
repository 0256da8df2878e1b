"""Counters of the engine by component, in total and for each agent (manager.md 9.3, 10.1, 11.1)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

QUEUES = (
    "alerts", "archives", "dbsync", "eventchannel", "firewall", "fts", "hostinfo", "others", "processed", "rootcheck",
    "sca", "stats", "syscheck", "syscollector", "upgrade",
)  # fmt: skip
"""Names of the queues that clients know."""

BY_QUEUE: Mapping[str, str] = {
    "3": "hostinfo",
    "5": "dbsync",
    "8": "modules.syscheck",
    "9": "modules.rootcheck",
    "d": "modules.syscollector",
    "e": "modules.ciscat",
    "f": "modules.logcollector.eventchannel",
    "p": "modules.sca",
    "u": "modules.upgrade",
}
"""Components by the type of the message, where that is enough."""

_MODULES = (
    ("wazuh-remoted", "remote"),
    ("wazuh-monitord", "monitor"),
    ("ossec-monitord", "monitor"),
    ("secmon-monitord", "monitor"),
    ("ossec-keepalive", "agent"),
    ("wazuh-agent", "agent"),
    ("virustotal", "integrations.virustotal"),
    ("Wazuh-AWS", "modules.aws"),
    ("Azure", "modules.azure"),
    ("azure-logs", "modules.azure"),
    ("wodle_cis-cat", "modules.ciscat"),
    ("command_", "modules.command"),
    ("Wazuh-Docker", "modules.docker"),
    ("Wazuh-GCloud", "modules.gcp"),
    ("github", "modules.github"),
    ("office365", "modules.office365"),
    ("ms-graph", "modules.ms-graph"),
    ("wodle_open-scap", "modules.oscap"),
    ("open-scap", "modules.oscap"),
    ("osquery", "modules.osquery"),
    ("rootcheck", "modules.rootcheck"),
    ("sca", "modules.sca"),
    ("syscheck", "modules.syscheck"),
    ("syscollector", "modules.syscollector"),
    ("vulnerability-detector", "modules.vulnerability"),
    ("WinEvtLog", "modules.logcollector.eventlog"),
    ("EventChannel", "modules.logcollector.eventchannel"),
    ("macos", "modules.logcollector.macos"),
)
"""Components by the beginning of the location."""

_ALL_COMPONENTS: Mapping[str, Any] = {
    "agent": "agent",
    "agentless": "agentless",
    "dbsync": "dbsync",
    "monitor": "monitor",
    "remote": "remote",
    "syslog": "syslog",
    "integrations_breakdown": {"virustotal": "integrations.virustotal"},
    "modules_breakdown": {
        **{
            name: f"modules.{name}"
            for name in ("aws", "azure", "ciscat", "command", "docker", "gcp", "github", "office365", "ms-graph")
        },
        "logcollector_breakdown": {
            name: f"modules.logcollector.{name}" for name in ("eventchannel", "eventlog", "macos", "others")
        },
        **{
            name: f"modules.{name}"
            for name in ("oscap", "osquery", "rootcheck", "sca", "syscheck", "syscollector", "upgrade", "vulnerability")
        },
    },
}
_MAX_ID_DIGITS = 9
_OF_AGENT = ("agent", "dbsync", "integrations_breakdown", "modules_breakdown", "monitor", "remote")


@lru_cache(maxsize=4096)
def component_of(queue: str, location: bytes) -> str:
    """The component that a message is counted for, by its type and its unescaped location."""
    known = BY_QUEUE.get(queue)
    if known is not None:
        return known
    if queue == "2":
        return "syslog"
    if location.startswith(b"(") and b"@" in location:
        return "agentless"
    place = location.rpartition(b"->")[2].decode("utf-8", "replace")
    return next((found for start, found in _MODULES if place.startswith(start)), "modules.logcollector.others")


class TotalCounts:
    """Counters of all events."""

    __slots__ = ("decoded", "dropped", "processed", "written")

    def __init__(self) -> None:
        self.decoded: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.processed = 0


class AgentCounts:
    """Counters of one agent since its first event at ``since``, seconds since 1970. There may be very many of these."""

    __slots__ = ("alerts", "archives", "decoded", "firewall", "processed", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.decoded: dict[str, int] = {}
        self.processed = self.alerts = self.archives = self.firewall = 0


class EventCounters:
    """Counters since the start at ``since``, seconds since 1970."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.total = TotalCounts()
        self.bytes = 0
        self.received = 0
        self.failed = 0
        """Events whose analysis failed; the reason is in the log."""
        self.unwritten = 0
        """Those of them that could not be written unanalysed either."""
        self.for_others = 0
        """Events of types that other consumers read."""
        self.malformed = 0
        self.agents: dict[int, AgentCounts] = {}

    def of(self, agent: str, now: int) -> AgentCounts | None:
        """Counters of an agent; None for the manager itself."""
        number = int(agent) if len(agent) <= _MAX_ID_DIGITS else 0
        if not number:
            return None
        found = self.agents.get(number)
        if found is None:
            found = self.agents[number] = AgentCounts(now)
        return found

    def forget_all_but(self, active: Iterable[int]) -> None:
        """Drop the counters of all other agents."""
        kept = set(active)
        self.agents = {number: counts for number, counts in self.agents.items() if number in kept}

    def metrics(self, queues: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
        """The tree of manager.md 10.1. ``queues``: size and usage from 0 to 1 of the queues that exist here."""
        total = self.total
        return {
            "bytes": {"received": self.bytes},
            "events": {
                "processed": total.processed,
                "received": self.received,
                "received_breakdown": {
                    "decoded_breakdown": _tree(_ALL_COMPONENTS, total.decoded),
                    "dropped_breakdown": _tree(_ALL_COMPONENTS, total.dropped),
                },
                "written_breakdown": {
                    name: total.written[name] for name in ("alerts", "archives", "firewall", "fts", "stats")
                },
            },
            "queues": {name: dict(zip(("size", "usage"), queues.get(name, (0, 0.0)), strict=True)) for name in QUEUES},
        }

    def agent_metrics(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Items of manager.md 11.1 of the agents that have sent events."""
        shape = {name: _ALL_COMPONENTS[name] for name in _OF_AGENT}
        items = []
        for number in numbers:
            found = self.agents.get(number)
            if found is not None:
                events = {
                    "processed": found.processed,
                    "received_breakdown": {"decoded_breakdown": _tree(shape, found.decoded)},
                    "written_breakdown": {
                        "alerts": found.alerts,
                        "archives": found.archives,
                        "firewall": found.firewall,
                    },
                }
                items.append({"uptime": found.since, "id": number, "metrics": {"events": events}})
        return items

    def state(self, queues: Mapping[str, tuple[int, float]]) -> dict[str, float]:
        """The flat form of manager.md 9.3."""
        decoded, written = self.total.decoded, self.total.written
        by_type = {
            "syscheck": "modules.syscheck",
            "syscollector": "modules.syscollector",
            "rootcheck": "modules.rootcheck",
            "sca": "modules.sca",
            "winevt": "modules.logcollector.eventchannel",
        }
        special = sum(decoded[name] for name in (*by_type.values(), "dbsync"))
        all_decoded = decoded.total()
        made: dict[str, float] = {
            "total_events_decoded": all_decoded,
            **{f"{name}_events_decoded": decoded[key] for name, key in by_type.items()},
            "dbsync_messages_dispatched": decoded["dbsync"],
            "other_events_decoded": all_decoded - special,
            "events_processed": self.total.processed,
            "events_received": self.received,
            "events_dropped": self.total.dropped.total(),
            "alerts_written": written["alerts"],
            "firewall_written": written["firewall"],
            "fts_written": written["fts"],
        }
        for shown, name in _STATE_QUEUES.items():
            size, usage = queues.get(name, (0, 0.0))
            made |= {f"{shown}_queue_usage": round(usage, 2), f"{shown}_queue_size": size}
        return made


_STATE_QUEUES = {
    "syscheck": "syscheck", "syscollector": "syscollector", "rootcheck": "rootcheck", "sca": "sca",
    "hostinfo": "hostinfo", "winevt": "eventchannel", "dbsync": "dbsync", "upgrade": "upgrade", "event": "others",
    "rule_matching": "processed", "alerts": "alerts", "firewall": "firewall", "statistical": "stats",
    "archives": "archives",
}  # fmt: skip


def _tree(shape: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
    return {name: counts.get(each, 0) if isinstance(each, str) else _tree(each, counts) for name, each in shape.items()}
