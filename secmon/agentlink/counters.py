"""Counters of the link and of each agent (agent-link.md 12)."""

from typing import Any, Literal

Sent = Literal["ack", "ar", "request", "sca", "shared"]
"""Kinds of messages sent."""


class MessageCounts:
    """Numbers of messages, of one agent or of all."""

    __slots__ = (
        "ack",
        "ar",
        "control",
        "event",
        "keepalive",
        "request",
        "sca",
        "sent_request",
        "shared",
        "shutdown",
        "since",
        "startup",
        "undelivered",
    )

    def __init__(self, since: int) -> None:
        """``since``: seconds since 1970."""
        self.since = since
        self.control = self.keepalive = self.request = self.shutdown = self.startup = self.event = 0
        self.ack = self.ar = self.undelivered = self.sent_request = self.sca = self.shared = 0

    def sent(self, kind: Sent) -> None:
        match kind:
            case "ack":
                self.ack += 1
            case "shared":
                self.shared += 1
            case "request":
                self.sent_request += 1
            case "sca":
                self.sca += 1
            case "ar":
                self.ar += 1

    def received_breakdown(self) -> dict[str, Any]:
        return {
            "control": self.control,
            "control_breakdown": {
                "keepalive": self.keepalive,
                "request": self.request,
                "shutdown": self.shutdown,
                "startup": self.startup,
            },
            "event": self.event,
        }

    def sent_breakdown(self) -> dict[str, int]:
        return {
            "ack": self.ack,
            "ar": self.ar,
            "discarded": self.undelivered,
            "request": self.sent_request,
            "sca": self.sca,
            "shared": self.shared,
        }


class LinkCounts(MessageCounts):
    """Counters of the whole link."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "counters_back",
        "dequeued_after",
        "discarded",
        "dropped",
        "evicted",
        "holds",
        "ping",
        "reloads",
        "syslog",
        "unknown",
    )

    def __init__(self, since: int) -> None:
        super().__init__(since)
        self.bytes_received = self.bytes_sent = self.reloads = 0
        self.dequeued_after = self.discarded = self.ping = self.unknown = 0
        self.counters_back = 0
        """Connections that began with a message counter that their agent had used before."""
        self.syslog = 0
        """Lines of syslog senders."""
        self.dropped = 0
        """Events of TCP connections that are among ``discarded``."""
        self.holds = 0
        """Holds of connections."""
        self.evicted = 0
        """Connections closed because they did not authenticate in time, or because their agent had too many."""

    def statistics(self, *, now: int, sessions: int, queue_size: int, queue_usage: int) -> dict[str, Any]:
        """Section 12.1. ``now`` in seconds since 1970, ``sessions`` open TCP connections."""
        received = self.received_breakdown() | {
            "dequeued_after": self.dequeued_after,
            "discarded": self.discarded,
            "ping": self.ping,
            "unknown": self.unknown,
        }
        return {
            "uptime": self.since,
            "timestamp": now,
            "name": "secmon-remoted",
            "metrics": {
                "bytes": {"received": self.bytes_received, "sent": self.bytes_sent},
                "keys_reload_count": self.reloads,
                "tcp_sessions": sessions,
                "messages": {"received_breakdown": received, "sent_breakdown": self.sent_breakdown()},
                "queues": {"received": {"size": queue_size, "usage": queue_usage}},
            },
        }


def agent_statistics(agents: list[tuple[int, MessageCounts]], *, now: int) -> dict[str, Any]:
    """Section 12.2. ``agents``: numbers and counters."""
    return {
        "timestamp": now,
        "name": "secmon-remoted",
        "agents": [
            {
                "uptime": counts.since,
                "id": number,
                "metrics": {
                    "messages": {
                        "received_breakdown": counts.received_breakdown(),
                        "sent_breakdown": counts.sent_breakdown(),
                    }
                },
            }
            for number, counts in agents
        ],
    }
