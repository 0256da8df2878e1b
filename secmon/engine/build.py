"""Builds the analysis of a node from its configuration."""

from dataclasses import dataclass
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.config.responses import read_responses
from secmon.engine.analysis_thread import AnalysisThread, Flush
from secmon.engine.cluster_hits.cluster_memory import ClusterMemory
from secmon.engine.cluster_hits.hit_exchange import Send
from secmon.engine.engine import Engine
from secmon.engine.event_counters import EventCounters
from secmon.engine.event_rate_limit import EventRateLimit
from secmon.engine.input.event_feed import EventFeed
from secmon.engine.lookahead.decoder_pool import DecoderPool, pool_size
from secmon.engine.memory.check_diff import DeferredContents
from secmon.engine.memory.fts import FirstTimeKeys, IgnoredKeys
from secmon.engine.memory.key_file import KeyFile
from secmon.engine.memory.state import MEMORY_SIZE, State
from secmon.engine.output.checkpoint import OutputCheckpoint
from secmon.engine.output.document import Documents, Origin, Techniques
from secmon.engine.output.event_statistics import EventStatistics, StatisticsSettings
from secmon.engine.output.labels import LabelSource
from secmon.engine.output.outputs import Outputs, OutputSettings
from secmon.engine.output.responses import ResponseJournal
from secmon.engine.pipeline import Pipeline
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import Sources
from secmon.engine.sources.source_keeper import SourceKeeper
from secmon.journal.journal import JournalWriter

MIN_MEMORY_SIZE = 2048
_RESPONSE_BYTES = 64 << 20
"""Of the journal of responses."""


@dataclass(frozen=True, kw_only=True)
class AnalysisEnvironment:
    """What the analysis needs of its node. ``host`` is the full host name."""

    paths: Paths
    config: MainConfig
    options: InternalOptions
    clock: Clock
    counters: Counters
    host: str
    labels: LabelSource
    techniques: Techniques | None = None
    report_hits: Send | None = None
    """Reports hits to other nodes, of composites that are counted over the cluster; None without a cluster."""

    @property
    def short_host(self) -> bytes:
        return self.host.partition(".")[0].encode()

    @property
    def origin(self) -> Origin:
        cluster = self.config.cluster
        hidden = cluster.disabled or cluster.hidden
        return Origin(self.host, None if hidden else (cluster.name, cluster.node_name))


def build_analysis_thread(
    env: AnalysisEnvironment,
    ruleset: Ruleset,
    event_counters: EventCounters,
    sources: Sources | None = None,
    event_sources: SourceKeeper | None = None,
) -> AnalysisThread:
    """A thread that is not started yet. Registers with the journals. Raises OSError.

    ``sources`` of the ruleset, for the decoder processes; ``event_sources``: notes where events come from.
    """
    paths, config = env.paths, env.config
    state, flushes = _build_state(env, event_counters)
    if env.report_hits is not None:
        state.cluster = ClusterMemory(state.memory_size)
        state.cluster.use(ruleset.rules.by_id.values())
    pipeline = _build_pipeline(env, Engine(ruleset, state, host=env.short_host), event_counters)
    processes = pool_size(env.options.get("analysisd.engines"))
    pool = DecoderPool(processes, env.clock, host=env.short_host, archiving=pipeline.outputs.archives)
    return AnalysisThread(
        pipeline,
        EventFeed([paths.events, paths.local_events], paths.inventory_events),
        OutputCheckpoint(output_checkpoint_path(paths)),
        env.clock,
        host=env.short_host,
        rate_limit=EventRateLimit(
            config.integer("global", "limits", "eps", "maximum", default=0),
            config.integer("global", "limits", "eps", "timeframe", default=10),
        ),
        flushes=flushes,
        pool=pool if processes else None,
        sources=sources,
        event_sources=event_sources.table if event_sources else None,
        observation=event_sources.observation if event_sources else None,
    )


def _build_state(env: AnalysisEnvironment, event_counters: EventCounters) -> tuple[State, tuple[Flush, ...]]:
    """The state with what earlier processes have stored, and what writes its changes at each commit."""
    paths, options = env.paths, env.options
    first_time = KeyFile(paths.root / "queue/fts/fts-queue", event_counters.total)
    ignored = KeyFile(paths.root / "queue/fts/ig-queue")
    contents = DeferredContents(paths.root / "queue/diff")
    state = State(
        contents,
        first_time_keys=FirstTimeKeys(
            first_time.lines(),
            first_time,
            compared=options.get("analysisd.fts_list_size"),
            prefix=options.get("analysisd.fts_min_size_for_str"),
        ),
        ignored_keys=IgnoredKeys(ignored.lines(), ignored),
        memory_size=max(MIN_MEMORY_SIZE, env.config.integer("global", "memory_size", default=MEMORY_SIZE)),
    )
    return state, (first_time.flush, ignored.flush, contents.flush)


def _build_pipeline(env: AnalysisEnvironment, engine: Engine, event_counters: EventCounters) -> Pipeline:
    paths, config, options = env.paths, env.config, env.options
    statistics_settings = StatisticsSettings.of(config, options)
    documents = Documents(env.origin, env.techniques)
    return Pipeline(
        engine=engine,
        documents=documents,
        outputs=Outputs(
            paths, OutputSettings.of(config, options), documents, env.counters, build_response_journal(env)
        ),
        statistics=EventStatistics(paths.stats, statistics_settings, env.clock.now().astimezone()),
        statistics_settings=statistics_settings,
        event_counters=event_counters,
        labels=env.labels,
        log_firewall=bool(options.get("analysisd.log_fw")),
    )


def build_response_journal(env: AnalysisEnvironment) -> ResponseJournal | None:
    """None without active responses. Raises SecmonError 1005, OSError."""
    responses = read_responses(env.config)
    if not responses:
        return None
    journal = JournalWriter(env.paths.responses, env.clock, limit=_RESPONSE_BYTES, segment=_RESPONSE_BYTES // 8)
    return ResponseJournal(journal, responses, env.counters)


def output_checkpoint_path(paths: Paths) -> Path:
    return paths.root / "queue/alerts/analysisd.written"
