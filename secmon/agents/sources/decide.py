"""Which sources have fallen silent, and which are back: a pure function of what the master knows.

Silence is the time since the last event in which an event would have been seen: only while the node has received and
analysed everything, and while the agent was connected to it. So nothing that the cluster does (a restart, a backlog, a
node that is away, an agent that moves, another master) makes a source silent; it begins the wait again.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from secmon.agents.sources.reports import WHOLE, SourceKey


class Summary(NamedTuple):
    """A source over all nodes, with times of the master's clock.

    ``limit``: seconds without an event after which it is silent; None: it is not watched.
    """

    last: int
    limit: int | None


class NodeView(NamedTuple):
    """A node that has just reported: what it has analysed, and since when in time."""

    reached: int
    since: int


class AgentView(NamedTuple):
    """A connected agent: its node, and since when it is known to be connected there."""

    node: str
    since: int


class SilentSince(NamedTuple):
    """A source that was found silent. ``last``: its latest event; ``found``: when; ``limit``: as it was then."""

    last: int
    found: int
    limit: int


class Snapshot(NamedTuple):
    """All that a decision depends on. ``returned``: when agents came back that had been silent as a whole."""

    sources: Mapping[int, Mapping[str, Summary]]
    nodes: Mapping[str, NodeView]
    agents: Mapping[int, AgentView]
    silent: Mapping[SourceKey, SilentSince]
    returned: Mapping[int, int] = {}


class Transition(NamedTuple):
    """A source is ``silent`` or ``back``, or ``forgotten`` because it is not watched any more.

    ``seconds``: how long it was silent. ``last``: the latest event before, or with which it is back.
    """

    kind: Literal["silent", "back", "forgotten"]
    key: SourceKey
    seconds: int = 0
    limit: int = 0
    last: int = 0

    @property
    def reason(self) -> str:
        agent, location = self.key
        name = f"agent {agent:03}" + (f", {location!r}" if location != WHOLE else "")
        match self.kind:
            case "silent":
                return f"{name}: no event for {self.seconds} s, expected within {self.limit} s"
            case "back":
                return f"{name}: events again after {self.seconds} s"
        return f"{name}: no longer watched"


def decide(snapshot: Snapshot) -> list[Transition]:
    """What has changed: first the silences that have ended, then those that begin."""
    ended = list(_ended(snapshot))
    silent = {key: silence for key, silence in snapshot.silent.items() if key not in {one.key for one in ended}}
    back = {one.key.agent: one.last for one in ended if one.kind == "back" and one.key.location == WHOLE}
    after = snapshot._replace(silent=silent, returned={**snapshot.returned, **back})
    return ended + [one for agent in snapshot.agents for one in _fallen_silent(after, agent) if one.key not in silent]


def _ended(snapshot: Snapshot) -> Iterator[Transition]:
    for key, silence in snapshot.silent.items():
        found = snapshot.sources.get(key.agent, {}).get(key.location)
        if found is None or found.limit is None:
            yield Transition("forgotten", key)
        elif found.last > silence.last:
            yield Transition("back", key, seconds=found.last - silence.last, last=found.last)


def _fallen_silent(snapshot: Snapshot, agent: int) -> Iterator[Transition]:
    """An agent as a whole, or else those of its locations that are silent."""
    view, sources = snapshot.agents[agent], snapshot.sources.get(agent, {})
    node, whole = snapshot.nodes.get(view.node), sources.get(WHOLE)
    if node is None or whole is None or SourceKey(agent, WHOLE) in snapshot.silent:
        return
    begin = max(view.since, node.since, snapshot.returned.get(agent, 0))
    if (found := _overdue(SourceKey(agent, WHOLE), whole, begin, node.reached)) is not None:
        yield found
        return
    for location, one in sources.items():
        covered = whole.limit is not None and one.limit is not None and whole.limit <= one.limit
        # An agent that stops sending is one silence: its locations count up to its last event from any of them.
        until = whole.last if covered else node.reached
        if location != WHOLE and (found := _overdue(SourceKey(agent, location), one, begin, until)) is not None:
            yield found


def _overdue(key: SourceKey, source: Summary, begin: int, until: int) -> Transition | None:
    """``begin``, ``until``: between them an event would have been seen."""
    if source.limit is None or until - max(source.last, begin) <= source.limit:
        return None
    return Transition("silent", key, seconds=until - source.last, limit=source.limit, last=source.last)
