"""Refused nodes, as ``GET /cluster/healthcheck`` shows them (cluster.md 3.2, 6.3)."""

import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from secmon.common.clock import Clock, iso_micro
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.clusterd.membership")

LIMIT = 64
"""RefusalLog kept; the oldest goes first."""


@dataclass(frozen=True)
class RefusedNode:
    """One node's latest refusal."""

    name: str
    ip: str
    code: int
    reason: str
    time: datetime


class RefusalLog:
    """The latest refusal of each node; for nodes without a valid proof, of each address, which bounds their number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: OrderedDict[tuple[str, str], RefusedNode] = OrderedDict()

    def record(self, error: SecmonError, *, name: str, ip: str, proved: bool) -> None:
        """Record and log that the node with the stated ``name`` was refused with ``error``."""
        key = ("name", name) if proved else ("ip", ip)
        self._latest.pop(key, None)
        self._latest[key] = RefusedNode(name[:64], ip, error.code, error.message, self._clock.now())
        while len(self._latest) > LIMIT:
            self._latest.popitem(last=False)
        log.warning("refused node %r from %s: %s", name[:64], ip, error)

    def accepted(self, *, name: str, ip: str) -> None:
        """Drop the refusal of a node that has joined."""
        self._latest.pop(("name", name), None)
        stranger = self._latest.get(("ip", ip))
        if stranger and stranger.name == name:
            del self._latest[("ip", ip)]

    def items(self) -> list[dict[str, Any]]:
        """Shape ``{name, ip, code, reason, time}``, the latest last."""
        return [
            {"name": each.name, "ip": each.ip, "code": each.code, "reason": each.reason, "time": iso_micro(each.time)}
            for each in self._latest.values()
        ]
