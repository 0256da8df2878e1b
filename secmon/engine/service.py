"""The analysis of a node: sources, analysis thread, live ruleset, logtest sessions, and their counters."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from secmon.common.background import Background
from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.common.files.watch import FolderWatch
from secmon.common.ipc.commands import CommandServer
from secmon.common.ipc.server import FrameServer, Limits
from secmon.engine.active_configuration import active_config
from secmon.engine.analysis_socket import MAX_REQUEST, AnalysisCommands
from secmon.engine.analysis_thread import AnalysisThread
from secmon.engine.build import AnalysisEnvironment, build_analysis_thread
from secmon.engine.cluster_hits.hit_exchange import HitExchange
from secmon.engine.event_counters import EventCounters
from secmon.engine.input.datagrams import DatagramSource
from secmon.engine.input.file_counters import LocalFileCounters
from secmon.engine.input.local_files import LocalFileFollower, local_files
from secmon.engine.logtest.logtest_protocol import FAILED
from secmon.engine.logtest.logtest_protocol import MAX_REQUEST as LOGTEST_REQUEST
from secmon.engine.logtest.logtest_protocol import TOO_LONG as LOGTEST_TOO_LONG
from secmon.engine.logtest.logtest_protocol import answer as answer_logtest
from secmon.engine.logtest.logtest_sessions import Sessions, SessionSettings
from secmon.engine.matching.implementation import FORM
from secmon.engine.output.document import Documents
from secmon.engine.output.outputs import OutputSettings, output_rotations, tidy_outputs
from secmon.engine.ruleset.live_ruleset import Compiled, LiveRuleset
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.engine.sources.source_keeper import AgentPresence, SourceKeeper
from secmon.journal.batch_writer import BatchWriter
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.analysisd")

NAME = "secmon-analysisd"
MAX_CLIENTS = 4096
"""Connections to each of the sockets for other daemons and for log tests."""
RESCAN_SECONDS = 5.0
"""Between two comparisons of the ruleset files with the live ruleset when no change is reported."""
AGENTS_SECONDS = 600.0
"""Between two sweeps of the counters of agents that are not active."""
_HOUSEKEEPING_SECONDS = 1.0
_SEGMENTS = 8
MAX_LOCAL_BYTES = 32 << 20
"""Bytes of local events that may wait for their journal."""
_ALERT_BYTES = 1 << 20
"""The size that clients see of the queue of alerts that wait for the disk."""
_WATCHED = ("etc/rules", "etc/decoders", "etc/lists", "etc/attack")

ActiveAgents = Callable[[], Awaitable[set[int]]]
"""Numbers of the agents whose counters are kept."""


class AnalysisService:
    """Build it, start it once, stop it once. Runs on one event loop, with the analysis thread beside it."""

    def __init__(
        self, env: AnalysisEnvironment, active_agents: ActiveAgents, presence: AgentPresence, tasks: Background
    ) -> None:
        paths, config, options = env.paths, env.config, env.options
        self._env = env
        self._active_agents = active_agents
        self.event_counters = EventCounters(int(env.clock.now().timestamp()))
        self.live_ruleset = LiveRuleset(paths, env.clock)
        self.session_settings = SessionSettings.of(config, cores=os.cpu_count() or 1)
        self.sessions = Sessions(
            self.session_settings,
            env.clock,
            self.live_ruleset.latest,
            lambda: Documents(env.origin, env.techniques),
            paths.root / "queue/diff",
            host=env.short_host,
        )
        self._session_threads = ThreadPoolExecutor(self.session_settings.threads, thread_name_prefix="logtest")
        self.thread: AnalysisThread | None = None
        self.local_events: BatchWriter | None = None
        self._commands: AnalysisCommands | None = None
        self._datagrams: DatagramSource | None = None
        self._servers: list[FrameServer] = []
        self._local_file_counters = LocalFileCounters(env.clock)
        self._local_files: LocalFileFollower | None = None
        self._exchange: HitExchange | None = None
        self._watch = FolderWatch(paths.root, self._wake)
        self._changed = asyncio.Event()
        self._tasks = tasks
        self._engine_ended = asyncio.Event()
        self._limits = [options.get(f"{name}.events_mb") << 20 for name in ("remoted", "analysisd")]
        self.sources = SourceKeeper(paths, env.clock, presence, journal_limit=self._limits[0])

    async def start(self) -> None:
        """Analyse and serve. Raises RulesetError, SecmonError 1005 when another process analyses, OSError."""
        compiled = await asyncio.to_thread(self.live_ruleset.start)
        await asyncio.to_thread(self.sources.load)
        await self._watch.start()
        await self._open_sources()
        self.thread = await asyncio.to_thread(
            build_analysis_thread, self._env, compiled.ruleset, self.event_counters, compiled.sources, self.sources
        )
        cluster = self.thread.pipeline.engine.state.cluster
        if cluster is not None and self._env.report_hits is not None:
            self._exchange = HitExchange(cluster, self._env.report_hits)
            self._tasks.keep("hits for other nodes", self._exchange.run)
        loop, ended = asyncio.get_running_loop(), self._engine_ended
        self.thread.on_end = lambda: loop.call_soon_threadsafe(ended.set)
        self.thread.start()
        await self._serve()
        self._tasks.vital("engine", self._watch_thread)
        self._tasks.keep("ruleset", self._follow_ruleset)
        self._tasks.keep("housekeeping", self._housekeeping)
        self._tasks.keep("agents", self._sweep_agents)
        self._tasks.keep("old files", self._tidy)
        self._tasks.keep("sources of events", self.sources.run)
        if self._local_files is not None:
            self._tasks.vital("local files", self._local_files.run)
        for note in self.session_settings.notes:
            log.warning("%s", note)
        if FORM == "plain":
            log.info("Patterns are matched without the compiled module, several times slower (docs/analysis.md)")

    async def stop(self) -> None:
        """Accept nothing new, store what was accepted, finish the current event and commit."""
        for server in self._servers:
            await server.close()
        if self._datagrams is not None:
            self._datagrams.close()
        await self._tasks.stop()
        if self._local_files is not None:
            self._local_files.stop()
            await self._tasks.ended("local files")
            self._local_files.close()
        await self._watch.stop()
        if self.local_events is not None:
            self.local_events.stop()
            await self._tasks.ended("local events")
        if self.thread is not None:
            await asyncio.to_thread(self.thread.stop)
            await self._tasks.ended("engine")
            await asyncio.to_thread(self.sources.save)
        if self.local_events is not None:
            self.local_events.close()
        self._session_threads.shutdown(wait=False, cancel_futures=True)
        self.live_ruleset.close()
        self._state_file.unlink(missing_ok=True)

    async def tend(self) -> None:
        """Restore sockets whose files were removed. Raises OSError."""
        for server in self._servers:
            await server.tend()
        if self._datagrams is not None:
            self._datagrams.tend()

    async def reload(self) -> None:
        """Read the ruleset section and the levels again; all else changes at a restart."""
        await self._refresh(configuration=True)

    def statistics(self, agents: list[int] | None = None) -> dict[str, Any]:
        """Counters of the engine, or of agents."""
        shown: dict[str, Any] = {"uptime": self.event_counters.since} if agents is None else {}
        shown |= {"timestamp": int(self._env.clock.now().timestamp()), "name": NAME}
        if agents is not None:
            return shown | {"agents": self.event_counters.agent_metrics(agents)}
        return shown | {"metrics": self._metrics()}

    def counters(self) -> dict[str, Any]:
        """The statistics, and counters for operators."""
        thread, local = self.thread, self.local_events
        if thread is None or local is None:
            return {}
        waits_for = thread.waits_for or local.trouble
        return self.statistics() | {
            "analysis": {
                "matchers": FORM,
                "waits_for": waits_for,
                "waiting": bool(waits_for),
                "waits": thread.waits,
                "possibly_repeated": thread.repeated,
                "lost": thread.feed.lost,
                "malformed": self.event_counters.malformed,
                "failed": self.event_counters.failed,
                "unwritten": self.event_counters.unwritten,
                "kept_for_others": self.event_counters.for_others,
                "incomplete_firewall": thread.pipeline.incomplete,
                "positions": thread.feed.positions,
                "unread_bytes": thread.feed.unread(),
                "ingested": self._commands.ingested if self._commands else 0,
                "datagrams": self._datagrams.received if self._datagrams else 0,
                "local_lines": self._local_files.lines if self._local_files else 0,
                "journal": local.journal.counters(),
                "responses": thread.pipeline.outputs.counters(),
                "outputs": self._env.counters.snapshot(),
            },
            "engines": thread.counters(),
            "hits": self._exchange.counters() if self._exchange is not None else {},
            "ruleset": {
                "status": self.live_ruleset.state,
                "current": self.live_ruleset.state == "current",
                "swaps": thread.swaps,
                "rejections": self.live_ruleset.rejections,
            },
            "sources": self.sources.counters(),
            "sessions": {"open": len(self.sessions), "evicted": self.sessions.evicted},
        }

    def active_config(self) -> dict[str, Any]:
        """The active configuration by section."""
        env = self._env
        outputs = OutputSettings.of(env.config, env.options)
        ruleset = self.live_ruleset.current.ruleset
        return active_config(env.config, env.options, outputs, self.session_settings, ruleset)

    # Start

    async def _open_sources(self) -> None:
        env, limit = self._env, self._limits[1]
        journal = await asyncio.to_thread(
            JournalWriter, env.paths.local_events, env.clock, limit=limit, segment=limit // _SEGMENTS
        )
        self.local_events = BatchWriter(
            journal,
            size=env.options.get("analysisd.decode_event_queue_size"),
            max_bytes=MAX_LOCAL_BYTES,
            log=log,
            what="Local events",
        )
        self._tasks.vital("local events", self.local_events.run)
        self._datagrams = DatagramSource(env.paths.queue_socket, self.local_events)
        self.local_events.on_room = self._datagrams.resume
        if patterns := local_files(env.config):
            positions = env.paths.root / "queue/logcollector/file_status.json"
            self._local_files = LocalFileFollower(
                patterns, positions, env.clock, self.local_events.store, self._local_file_counters
            )
            await self._local_files.begin()

    async def _serve(self) -> None:
        assert self.local_events is not None, "opened first"
        assert self._datagrams is not None, "opened first"
        paths = self._env.paths
        self._commands = AnalysisCommands(
            self.local_events,
            self.statistics,
            self._local_file_counters.report,
            self._ruleset_status,
            RulesetValidator(paths, self.live_ruleset.cache),
            self._exchange.received if self._exchange is not None else None,
            self.sources,
        )
        limits = Limits(request=MAX_REQUEST, clients=MAX_CLIENTS)
        servers: list[FrameServer] = [CommandServer(paths.analysis_socket, self._commands.answer, limits)]
        if self.session_settings.enabled:
            limits = Limits(request=LOGTEST_REQUEST, clients=MAX_CLIENTS)
            servers.append(FrameServer(paths.logtest_socket, self._logtest, limits, too_long=LOGTEST_TOO_LONG))
        for server in servers:
            await server.open()
            self._servers.append(server)
        self._datagrams.open()

    # Answers

    async def _logtest(self, request: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._session_threads, answer_logtest, self.sessions, request)
        except Exception:  # a fault in one session must not end the server; logged with its trace
            log.exception("A log test has failed")
            return FAILED

    async def _ruleset_status(self, refresh: bool) -> Mapping[str, Any]:
        if refresh:
            await self._refresh()
        return self.live_ruleset.status()

    def _metrics(self) -> dict[str, Any]:
        metrics = self.event_counters.metrics(self._queues())
        thread = self.thread
        if thread is not None and thread.rate_limit.limit:
            available = thread.rate_limit.available
            metrics["eps"] = {
                "available_credits": available,
                "available_credits_prev": available,
                "events_dropped": 0,
                "events_dropped_not_eps": 0,
                "seconds_over_limit": thread.rate_limit.seconds_over,
            }
        return metrics

    def _queues(self) -> dict[str, tuple[int, float]]:
        """Sizes and how full they are: bytes of agents' events, messages of local sources, bytes of alerts."""
        thread, local = self.thread, self.local_events
        if thread is None or local is None:
            return {}
        waiting = (
            ("processed", self._limits[0], thread.feed.unread()[0]),
            ("others", local.size, local.usage),
            ("alerts", _ALERT_BYTES, thread.pipeline.outputs.waiting),
        )
        return {name: (size, round(min(1.0, used / size), 4)) for name, size, used in waiting}

    # Background tasks

    def _wake(self) -> None:
        self._changed.set()

    async def _follow_ruleset(self) -> None:
        while True:
            try:
                async with asyncio.timeout(RESCAN_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass
            else:
                await self._watch.debounce()
            woken = self._changed.is_set()
            self._changed.clear()
            touched = self._watch.take_touched()
            await asyncio.to_thread(self._watch.renew_watches)
            if not woken or touched is None or any(path.startswith(_WATCHED) for path in touched):
                await self._refresh()

    async def _refresh(self, *, configuration: bool = False) -> None:
        made: Compiled | None = await asyncio.to_thread(self.live_ruleset.refresh, configuration=configuration)
        if await asyncio.to_thread(self._techniques_changed):
            made = self.live_ruleset.current  # alerts name the techniques of rules
        if made is not None and self.thread is not None:
            self.thread.swap(made.ruleset, made.sources)

    def _techniques_changed(self) -> bool:
        techniques = self._env.techniques
        if techniques is None:
            return False
        before = techniques.generation
        techniques.technique("")
        return techniques.generation != before

    async def _watch_thread(self) -> None:
        """Raise the error that ended the analysis thread."""
        await self._engine_ended.wait()
        if self.thread is not None and self.thread.failure is not None:
            raise self.thread.failure

    async def _housekeeping(self) -> None:
        """End idle sessions, write the state file."""
        interval = self._env.options.get("analysisd.state_interval")
        clock, due = self._env.clock, 0.0
        while True:
            self.sessions.reap()
            if interval and clock.monotonic() >= due:
                due = clock.monotonic() + interval
                await asyncio.to_thread(self._write_state)
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)

    @property
    def _state_file(self) -> Path:
        return self._env.paths.run / f"{NAME}.state"

    def _write_state(self) -> None:
        state = self.event_counters.state(self._queues())
        lines = [f"# State of {NAME}", *(f"{name}='{value}'" for name, value in state.items())]
        try:
            write_file(self._state_file, ("\n".join(lines) + "\n").encode())
        except OSError as error:
            log.debug("The state file is not written: %s", os_text(error))

    async def _sweep_agents(self) -> None:
        while True:
            await asyncio.sleep(AGENTS_SECONDS)
            self.event_counters.forget_all_but(await self._active_agents())

    async def _tidy(self) -> None:
        """Checksum and compress the files of past days, once each; failures are tried again later."""
        env, done = self._env, date.min
        rotations = output_rotations(env.paths, env.options)
        while True:
            await asyncio.sleep(env.options.get("monitord.day_wait"))
            today = env.clock.now().astimezone().date()
            if today != done and await asyncio.to_thread(tidy_outputs, rotations, today):
                done = today
            await asyncio.sleep(60)
