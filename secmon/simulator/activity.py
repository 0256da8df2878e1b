"""Statistics of an agent for ``getstate`` (agent-link.md 8.3)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

_LINE = 120  # bytes of a log line, about


@dataclass(slots=True)
class Activity:
    """Statistics since the start of the agent's process; times are of its own clock."""

    sent: int = 0
    dropped: int = 0
    keepalive: datetime | None = None
    ack: datetime | None = None

    def agent(self, *, connected: bool) -> dict[str, Any]:
        """The answer of the component ``agent``."""
        return {
            "status": "connected" if connected else "pending",
            "last_keepalive": _text(self.keepalive),
            "last_ack": _text(self.ack),
            "msg_count": self.sent + self.dropped,
            "msg_sent": self.sent,
            "msg_buffer": 0,
            "buffer_enabled": True,
        }

    def logcollector(self, now: datetime) -> dict[str, Any]:
        """The answer of the component ``logcollector``."""
        targets = [{"name": "agent", "drops": self.dropped}]
        file = {"location": "/var/log/auth.log", "events": self.sent, "bytes": _LINE * self.sent, "targets": targets}
        part = {"start": _text(now), "end": _text(now), "files": [file]}
        return {"global": part, "interval": part}


def _text(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""
