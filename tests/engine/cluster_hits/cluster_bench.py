"""Engines of several nodes in one process, and messages between them that tests delay, lose, double and reorder."""

from collections.abc import Callable, Sequence

from secmon.cluster.rule_hits import HitsOf
from secmon.engine.cluster_hits.cluster_memory import ClusterMemory
from secmon.engine.engine import Verdict
from secmon.engine.ruleset.compiled import Ruleset
from tests.engine.rules_kit import Bench


class NodeBench(Bench):
    """The engine of one node."""

    def __init__(self, name: str, compiled: Ruleset, *, size: int = 8192) -> None:
        super().__init__(compiled)
        self.name = name
        self.analysed = 0
        self.memory = ClusterMemory(size, lambda: (0, self.analysed))
        self.memory.use(compiled.rules.by_id.values())
        self.state.cluster = self.memory

    def seen(self, log: str, at: float, agent: str) -> Verdict:
        """Analyse a log of an agent."""
        verdict = self.run(log, at, f"[{agent}] (a{agent}) 192.0.2.9->/x")
        self.analysed += 1
        return verdict

    def reported(self) -> list[HitsOf]:
        """What this node has to tell."""
        found = []
        while (hits := self.memory.outgoing.take()) is not None:
            found.append(HitsOf(node=self.name, hits=hits.hits, firings=hits.firings))
        return found

    def hear(self, messages: Sequence[HitsOf], now: float = 1e10) -> None:
        self.memory.arrived(messages)
        self.memory.take(self.state.ignored_since, now)


class ClusterBench:
    """Nodes a, b, c, ..."""

    def __init__(self, compiled: Ruleset, count: int = 3, *, size: int = 8192) -> None:
        self.nodes = [NodeBench("abcdef"[at], compiled, size=size) for at in range(count)]

    def seen(self, node: int, log: str, at: float, agent: str) -> Verdict:
        """One node analyses a log, and the others hear of it at once."""
        verdict = self.nodes[node].seen(log, at, agent)
        self.exchange()
        return verdict

    def exchange(self, through: Callable[[int, list[HitsOf]], list[HitsOf]] = lambda to, all_: all_) -> None:
        """Tell each node what the others have to tell; ``through``: what becomes of messages on their way to one."""
        reported = [node.reported() for node in self.nodes]
        for at, node in enumerate(self.nodes):
            messages = [one for other, some in enumerate(reported) if other != at for one in some]
            node.hear(through(at, messages))
