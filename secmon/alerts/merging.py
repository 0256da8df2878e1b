"""How the answers of several nodes become one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from secmon.alerts.store import Place


class SharedAlert(Struct, frozen=True):
    """An alert in the share of a node: its place in the node's order, and what is shown of it."""

    order: int
    alert: dict[str, Any]


class Share(NamedTuple):
    """A node's newest alerts, newest first. ``more``: there are others behind them."""

    alerts: Sequence[SharedAlert]
    more: bool


class Cursor(NamedTuple):
    """The last alert of a page: what follows is behind it in the order of all nodes, by time and then by node."""

    order: int
    node: str

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Raises ValueError."""
        order, _, node = text.partition(".")
        if not (order.isascii() and order.isdecimal() and len(order) <= 20 and int(order) < 1 << 64 and node):
            raise ValueError(text)
        return cls(int(order), node)

    def __str__(self) -> str:
        return f"{self.order}.{self.node}"

    def place(self, node: str) -> Place:
        """Where ``node`` goes on."""
        return Place(self.order, included=node > self.node)


class MergedPage(NamedTuple):
    """Alerts of all nodes, and where the next page begins; None after the last one."""

    alerts: list[dict[str, Any]]
    following: Cursor | None


def merge_pages(shares: Mapping[str, Share], limit: int) -> MergedPage:
    """The newest ``limit`` alerts of all shares, or fewer: no share is passed over that may have others between."""
    every = sorted(
        ((one.order, node, one.alert) for node, share in shares.items() for one in share.alerts),
        key=lambda found: (-found[0], found[1]),
    )
    ends = {node: share.alerts[-1].order for node, share in shares.items() if share.more and share.alerts}
    alerts: list[dict[str, Any]] = []
    for order, node, alert in every[:limit]:
        alerts.append(alert)
        if ends.get(node) == order:
            return MergedPage(alerts, Cursor(order, node))
    if len(every) <= limit:
        return MergedPage(alerts, None)
    order, node, _ = every[limit - 1]
    return MergedPage(alerts, Cursor(order, node))


class SharedCounts(Struct, frozen=True):
    """How many alerts of a node have each value; of a value that is left out, ``missing`` at most."""

    counts: dict[str, int]
    total: int
    missing: int = 0


class MergedCounts(NamedTuple):
    """The most frequent values. ``error``: how much too low each count may be; 0: all are exact."""

    counts: list[tuple[str, int]]
    total: int
    error: int


def merge_counts(shares: Sequence[SharedCounts], limit: int) -> MergedCounts:
    """The counts of all shares added, the highest first, equal ones by value."""
    counts: Counter[str] = Counter()
    for share in shares:
        counts.update(share.counts)
    highest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return MergedCounts(highest, sum(share.total for share in shares), sum(share.missing for share in shares))
