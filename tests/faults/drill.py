"""Faults in random order while clients work, and what must hold then."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from secmon.simulator import Fleet, Options, Timing
from tests.faults.checker import violations
from tests.faults.clients import PAUSE_SECONDS, Clients
from tests.faults.end_state import differences, read_everything
from tests.faults.faults import FAULTS, other_than
from tests.faults.history import History, Outcome, Write
from tests.faults.objects import Agents, Object
from tests.faults.report import Done, Report
from tests.faults.revisions import RevisionWatch
from tests.faults.stage import LEASE_SECONDS, Stage
from tests.integration.kit import RealNode
from tests.simulator.background import Background, running, server_of
from tests.waiting import wait_until

AGENTS = 6
HEALED_SECONDS = 90.0
"""For the cluster to be whole after a fault: it takes a few, and a busy machine more."""
_NO_PAUSE = 0.3
"""How often a fault follows before the one before it has healed."""


class Drill:
    """Each fault lasts for one of ``seconds``, from the first to the last. ``shown`` is called when it has ended.

    ``pause``: seconds between two requests of a client.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        seed: int,
        seconds: tuple[float, float] = (0.2, 9.0),
        pause: float = PAUSE_SECONDS,
        shown: Callable[[Report], None] = lambda _: None,
    ) -> None:
        self._stage, self._seed, self._shown = stage, seed, shown
        self._seconds, self._pause = seconds, pause
        self._choice = random.Random(seed)
        self.report = Report(History())

    def run(self, kinds: Sequence[str]) -> Report:
        """Cause faults of these kinds, one after the other, and check everything. Raises AssertionError."""
        cluster, report = self._stage.cluster, self.report
        with _agents(cluster.nodes, self._seed) as agents, RevisionWatch(cluster.nodes, report.history):
            enrolled = _enrolled(agents, report.history)
            clients = Clients(cluster, report.history, seed=self._seed, pause=self._pause)
            try:
                self._heal()
                for kind in kinds:
                    self._cause(kind)
                self._heal()
                wait_until(lambda: agents.counters.connected == AGENTS, "all agents connected")
            finally:
                report.ended = time.monotonic()
                clients.stop()
            report.violations += differences(cluster)
            read_everything(cluster, report.history, [*enrolled, *clients.objects()])
        report.violations += violations(report.history, lease_seconds=LEASE_SECONDS)
        return report

    def _cause(self, kind: str) -> None:
        fault, cluster = FAULTS[kind], self._stage.cluster
        leader = cluster.leader() or self._choice.choice(cluster.nodes)
        node = leader if fault.of_master else other_than(leader, self._stage, self._choice)
        begun, history = time.monotonic(), self.report.history
        must_answer = history.calm.end(begun) and fault.answers
        with fault.begin(self._stage, node, self._choice):
            time.sleep(self._choice.uniform(*self._seconds))
            before = len(history.reads)
            wait_until(lambda: not must_answer or len(history.reads) > before, f"reads meanwhile: {kind}")
        self.report.faults.append(Done(kind, node.name, begun, time.monotonic()))
        if self._choice.random() < _NO_PAUSE:
            time.sleep(self._choice.uniform(0.0, 2.0))
        else:
            self._heal()
        self._shown(self.report)

    def _heal(self) -> None:
        """Wait until all is well, and changes are made again."""
        cluster, history = self._stage.cluster, self.report.history
        wait_until(cluster.running_whole, "a whole cluster", seconds=HEALED_SECONDS)
        before = history.count(Outcome.DONE)
        wait_until(lambda: history.count(Outcome.DONE) > before + 3, "changes", seconds=HEALED_SECONDS)
        history.calm.begin(time.monotonic())
        time.sleep(self._choice.uniform(0.5, 2.0))


@contextmanager
def _agents(nodes: Sequence[RealNode], seed: int) -> Iterator[Background]:
    """Simulated agents, spread over the nodes, with events."""
    timing = Timing(notify=1.0, silence=10.0, ack_wait=5.0, retry=0.5, max_retries=1, enrolment_retry=0.5)
    options = Options(timing=timing, events_per_second=1, seed=seed)
    with running(Fleet([server_of(node) for node in nodes], AGENTS, prefix=f"s{seed}", options=options)) as fleet:
        fleet.until(lambda counters: counters.connected == AGENTS, seconds=HEALED_SECONDS, what="agents connected")
        yield fleet


def _enrolled(agents: Background, history: History) -> list[Object]:
    """The simulated agents as objects of the history: their ids are no one else's, and they remain."""
    made, now = [], time.monotonic()
    for key in agents.fleet.held_keys:
        made.append(Object(Agents(), key.name, ["default"], key.id))
        history.wrote(Write(made[-1].key, "default", now, now, Outcome.DONE, key.id))
    return made
