"""An installation with journals of events, and the analysis of them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.engine.analysis_thread import AnalysisThread
from secmon.engine.build import AnalysisEnvironment, build_analysis_thread
from secmon.engine.cluster_hits.hit_exchange import Send
from secmon.engine.event_counters import EventCounters
from secmon.engine.output.labels import LabelSource
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import Sources
from secmon.journal.journal import JournalWriter
from secmon.journal.segments import consumers
from tests.waiting import wait_until

FOLDERS = "logs stats queue/fts queue/diff queue/alerts queue/sockets var/run var/db etc/rules etc/decoders etc/lists"


def make_folders(root: Path) -> Paths:
    for folder in FOLDERS.split():
        (root / folder).mkdir(parents=True, exist_ok=True)
    return Paths(root)


class Analysis:
    """A thread on its journals."""

    def __init__(
        self,
        root: Path,
        ruleset: Ruleset,
        *,
        config: str = "",
        clock: Clock | None = None,
        labels: LabelSource = lambda agent: None,
        engines: int = 1,
        sources: Sources | None = None,
        report_hits: Send | None = None,
    ) -> None:
        self.paths = make_folders(root)
        self.clock = clock or SystemClock()
        self._journals = (self.paths.events, self.paths.local_events, self.paths.inventory_events)
        self.writers = [JournalWriter(folder, self.clock, limit=64 << 20, segment=1 << 20) for folder in self._journals]
        self.event_counters = EventCounters(int(self.clock.now().timestamp()))
        env = AnalysisEnvironment(
            paths=self.paths,
            config=parse_main_config(
                f"<ossec_config><cluster><disabled>yes</disabled></cluster>{config}</ossec_config>"
            ),
            options=InternalOptions.defaults().with_overrides({"analysisd.engines": engines}),
            clock=self.clock,
            counters=Counters(),
            host="mgr.example",
            labels=labels,
            report_hits=report_hits,
        )
        self.thread: AnalysisThread = build_analysis_thread(env, ruleset, self.event_counters, sources)

    def send(self, events: Sequence[str | bytes], journal: int = 0) -> None:
        self.writers[journal].append([one.encode() if isinstance(one, str) else one for one in events])

    def drained(self) -> None:
        """Wait until all that was sent is committed."""
        wanted = [writer.next for writer in self.writers]
        wait_until(lambda: self.thread.failure or self.committed() == wanted, what="all events committed")
        assert self.thread.failure is None

    def committed(self) -> list[int]:
        return [consumers(folder)["analysisd"] or 0 for folder in self._journals]

    def alerts(self) -> list[dict[str, Any]]:
        return read_alerts(self.paths)

    def close(self) -> None:
        self.thread.stop()
        for writer in self.writers:
            writer.close()


def read_alerts(paths: Paths) -> list[dict[str, Any]]:
    """All complete alerts."""
    path = paths.logs / "alerts/alerts.json"
    return whole_lines(path.read_bytes()) if path.exists() else []


def whole_lines(data: bytes) -> list[dict[str, Any]]:
    """Objects, one a line; an incomplete line is skipped, as every reader must."""
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


@contextmanager
def analysing(root: Path, ruleset: Ruleset, **options: Any) -> Iterator[Analysis]:
    """An analysis that runs inside the block."""
    made = Analysis(root, ruleset, **options)
    made.thread.start()
    try:
        yield made
    finally:
        made.close()
