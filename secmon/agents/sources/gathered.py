"""What the nodes have reported of sources, over all nodes, on the master."""

from collections.abc import Callable, Container, Mapping

from secmon.agents.sources.decide import NodeView, SilentSince, Summary
from secmon.agents.sources.reports import MAX_SILENT, SourceKey, SourceQuestion, SourceReport, SourceRow

Limit = Callable[[SourceRow], int | None]
"""The seconds after which a source is silent; None: it is not watched."""


FORGOTTEN_SECONDS = 15 * 86_400
"""A source without an event for so long is forgotten, a day later than by its node."""


class _ReportedNode:
    """Rows of one node, by its own clock, which is ``ahead`` of ours."""

    def __init__(self, epoch: int) -> None:
        self.rows: dict[SourceKey, SourceRow] = {}
        self.epoch, self.ahead = epoch, 0
        self.after = self.reached = self.since = 0
        self.answered = self.current = False
        """Whether all of its sources are known; whether it has answered in this round."""
        self.sent: int | None = None
        """Version of the silent sources that the node remembers."""


class GatheredSources:
    """Not safe to use from several threads."""

    def __init__(self) -> None:
        self._nodes: dict[str, _ReportedNode] = {}
        self._version = 0

    def changed(self) -> None:
        """The silent sources are others: nodes are to remember them."""
        self._version += 1

    def begin(self) -> None:
        """Another round: nodes that do not answer in it are not judged."""
        for node in self._nodes.values():
            node.current = False

    def questions(self, silent: Mapping[SourceKey, SilentSince]) -> dict[str, SourceQuestion]:
        """What to ask the known nodes that have not answered in this round.

        A node is sent the silent sources once all that it remembers itself is known.
        """
        asked = {}
        for name, node in self._nodes.items():
            if not node.current:
                marks = None if node.sent == self._version or not node.answered else _marks(silent, node.ahead)
                asked[name] = SourceQuestion(after=node.after, silent=marks)
        return asked

    def add(self, name: str, report: SourceReport, now: int) -> Mapping[SourceKey, int]:
        """Take a report that arrived at ``now``.

        The sources that an earlier master has found silent, with their latest events, when all of the node are known.
        """
        node = self._nodes.get(name)
        if node is None or node.epoch != report.epoch:
            complete = node is None or node.after == 0
            node = self._nodes[name] = _ReportedNode(report.epoch)
            if not complete:
                return {}  # asked again, for all
        node.ahead, node.since = report.now - now, report.since
        node.rows.update((row.key, row) for row in report.rows)
        if report.more:
            node.after = report.rows[-1].last
            return {}
        first, node.answered, node.current = not node.answered, True, True
        node.after = node.reached = report.reached
        if not first:
            node.sent = self._version
            return {}
        return {row.key: row.silent_since - node.ahead for row in node.rows.values() if row.silent_since}

    def forget(self, agents: Container[int]) -> None:
        """Forget the sources of all other agents, and those without an event for long."""
        for node in self._nodes.values():
            oldest = node.reached - FORGOTTEN_SECONDS
            for key in [key for key, row in node.rows.items() if key.agent not in agents or row.last < oldest]:
                del node.rows[key]

    def nodes(self) -> Mapping[str, NodeView]:
        """The nodes that have answered in this round, by our clock."""
        return {
            name: NodeView(node.reached - node.ahead, node.since - node.ahead)
            for name, node in self._nodes.items()
            if node.current
        }

    def sources(self, limit: Limit) -> Mapping[int, Mapping[str, Summary]]:
        """All sources, by agent. What nodes have learned of one is added: an agent may have been on several."""
        merged: dict[int, dict[str, SourceRow]] = {}
        for node in self._nodes.values():
            for row in node.rows.values():
                ours, known = _shifted(row, node.ahead), merged.setdefault(row.agent, {})
                other = known.get(row.location)
                known[row.location] = ours if other is None else _merged(ours, other)
        return {
            agent: {location: Summary(row.last, limit(row)) for location, row in rows.items()}
            for agent, rows in merged.items()
        }


def _marks(silent: Mapping[SourceKey, SilentSince], ahead: int) -> list[tuple[int, str, int]]:
    return [(key.agent, key.location, one.last + ahead) for key, one in silent.items()][:MAX_SILENT]


def _shifted(row: SourceRow, ahead: int) -> SourceRow:
    if not ahead:
        return row
    return SourceRow(row.agent, row.location, row.first - ahead, row.last - ahead, row.hours, row.pause)


def _merged(one: SourceRow, other: SourceRow) -> SourceRow:
    return SourceRow(
        one.agent,
        one.location,
        min(one.first, other.first),
        max(one.last, other.last),
        one.hours + other.hours,
        max(one.pause, other.pause),
    )
