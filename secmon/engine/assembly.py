"""Putting the analysis together out of a configuration."""

from dataclasses import dataclass
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.engine.analysis import Engine
from secmon.engine.analysis_thread import Worker
from secmon.engine.counters import Tallies
from secmon.engine.input.journals import Feed, Ledger
from secmon.engine.lookahead.pool import Crew, helpers_for
from secmon.engine.memory.persistence import DeferredContents, KeyFile
from secmon.engine.memory.seen import FirstTimes, Muted
from secmon.engine.memory.state import MEMORY, State
from secmon.engine.output.document import Documents, Origin, Techniques
from secmon.engine.output.labels import LabelSource
from secmon.engine.output.outputs import Outputs, OutputSettings
from secmon.engine.output.statistics import Statistics, StatisticsSettings
from secmon.engine.pipeline import Credits, Pipeline
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.files import Sources

MIN_MEMORY = 2048


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the analysis finds on its node. ``host`` is its full name."""

    paths: Paths
    config: MainConfig
    options: InternalOptions
    clock: Clock
    counters: Counters
    host: str
    labels: LabelSource
    techniques: Techniques | None = None

    @property
    def short_host(self) -> bytes:
        return self.host.partition(".")[0].encode()

    @property
    def origin(self) -> Origin:
        cluster = self.config.cluster
        hidden = cluster.disabled or cluster.hidden
        return Origin(self.host, None if hidden else (cluster.name, cluster.node_name))


def build_worker(given: Surroundings, ruleset: Ruleset, tallies: Tallies, sources: Sources | None = None) -> Worker:
    """A worker that has not begun. Registers with the journals. Raises OSError.

    ``sources`` of the ruleset, for helpers.
    """
    paths, config, options = given.paths, given.config, given.options
    seen = KeyFile(paths.root / "queue/fts/fts-queue", tallies.whole)
    muted = KeyFile(paths.root / "queue/fts/ig-queue")
    contents = DeferredContents(paths.root / "queue/diff")
    state = State(
        contents,
        first_times=FirstTimes(
            seen.lines(),
            seen,
            compared=options.get("analysisd.fts_list_size"),
            alike=options.get("analysisd.fts_min_size_for_str"),
        ),
        muted=Muted(muted.lines(), muted),
        memory=max(MIN_MEMORY, config.integer("global", "memory_size", default=MEMORY)),
    )
    excess = StatisticsSettings.of(config, options)
    documents = Documents(given.origin, given.techniques)
    pipeline = Pipeline(
        engine=Engine(ruleset, state, host=given.short_host),
        documents=documents,
        outputs=Outputs(paths, OutputSettings.of(config, options), documents, given.counters),
        statistics=Statistics(paths.stats, excess, given.clock.now().astimezone()),
        excess=excess,
        tallies=tallies,
        labels=given.labels,
        log_firewall=bool(options.get("analysisd.log_fw")),
    )
    helpers = helpers_for(options.get("analysisd.engines"))
    crew = Crew(helpers, given.clock, host=given.short_host, everything=pipeline.outputs.archives)
    return Worker(
        pipeline,
        Feed([paths.events, paths.local_events]),
        Ledger(ledger_path(paths)),
        given.clock,
        host=given.short_host,
        credits_=Credits(
            config.integer("global", "limits", "eps", "maximum", default=0),
            config.integer("global", "limits", "eps", "timeframe", default=10),
        ),
        flushes=(seen.flush, muted.flush, contents.flush),
        crew=crew if helpers else None,
        sources=sources,
    )


def ledger_path(paths: Paths) -> Path:
    return paths.root / "queue/alerts/analysisd.written"
