"""The analysis of a node, put together: sources, worker, rulesets, sessions, and what tells how they fare."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from secmon.common.atomic import write_file
from secmon.common.background import Background
from secmon.common.errors import os_text
from secmon.common.files.watch import FolderWatch
from secmon.common.ipc.commands import CommandServer
from secmon.common.ipc.server import FrameServer, Limits
from secmon.engine.active_configuration import active_config
from secmon.engine.analysis_thread import Worker
from secmon.engine.assembly import Surroundings, build_worker
from secmon.engine.counters import Tallies
from secmon.engine.input.datagrams import DatagramSource
from secmon.engine.input.tail import Tails, local_files
from secmon.engine.local_socket import MAX_REQUEST, Desk
from secmon.engine.logtest.protocol import FAILED
from secmon.engine.logtest.protocol import MAX_REQUEST as LOGTEST_REQUEST
from secmon.engine.logtest.protocol import TOO_LONG as LOGTEST_TOO_LONG
from secmon.engine.logtest.protocol import answer as answer_logtest
from secmon.engine.logtest.sessions import Sessions, SessionSettings
from secmon.engine.output.document import Documents
from secmon.engine.output.outputs import OutputSettings, output_series
from secmon.engine.output.past_days import tidy
from secmon.engine.ruleset.live import Compiled, RulesetKeeper
from secmon.journal.batch_writer import BatchWriter
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.analysisd")

NAME = "secmon-analysisd"
MAX_CLIENTS = 4096
"""Connections to each of the sockets for other daemons and for log tests."""
LOOK_SECONDS = 5.0
"""Between two looks at the files of the ruleset, besides those that a change causes."""
AGENTS_SECONDS = 600.0
_BEAT_SECONDS = 1.0
_SEGMENTS = 8
MAX_LOCAL_BYTES = 32 << 20
"""Bytes of local events that may wait for their journal."""
_ALERT_BYTES = 1 << 20
"""Bytes of alerts that wait for the disk, as they are shown: what is more is full."""
_WATCHED = ("etc/rules", "etc/decoders", "etc/lists")

ActiveAgents = Callable[[], Awaitable[set[int]]]
"""Numbers of the agents whose counters are kept."""


class AnalysisService:
    """Build it, start it once, stop it once. All on one event loop, but for the worker's thread and short helpers."""

    def __init__(self, given: Surroundings, active_agents: ActiveAgents, tasks: Background) -> None:
        paths, config, options = given.paths, given.config, given.options
        self._given = given
        self._active_agents = active_agents
        self.tallies = Tallies(int(given.clock.now().timestamp()))
        self.keeper = RulesetKeeper(paths, given.clock)
        self.session_settings = SessionSettings.of(config, cores=os.cpu_count() or 1)
        self.sessions = Sessions(
            self.session_settings,
            given.clock,
            self.keeper.latest,
            lambda: Documents(given.origin, given.techniques),
            paths.root / "queue/diff",
            host=given.short_host,
        )
        self._session_threads = ThreadPoolExecutor(self.session_settings.threads, thread_name_prefix="logtest")
        self.worker: Worker | None = None
        self.local_events: BatchWriter | None = None
        self._desk: Desk | None = None
        self._datagrams: DatagramSource | None = None
        self._servers: list[FrameServer] = []
        self._tails: Tails | None = None
        self._watch = FolderWatch(paths.root, self._wake)
        self._changed = asyncio.Event()
        self._tasks = tasks
        self._engine_ended = asyncio.Event()
        self._limits = [options.get(f"{name}.events_mb") << 20 for name in ("remoted", "analysisd")]

    async def start(self) -> None:
        """Analyse and serve. Raises RulesetError, SecmonError 1005 when another process analyses, OSError."""
        compiled = await asyncio.to_thread(self.keeper.start)
        await self._watch.start()
        await self._open_sources()
        self.worker = await asyncio.to_thread(
            build_worker, self._given, compiled.ruleset, self.tallies, compiled.sources
        )
        loop, ended = asyncio.get_running_loop(), self._engine_ended
        self.worker.on_end = lambda: loop.call_soon_threadsafe(ended.set)
        self.worker.start()
        await self._serve()
        self._tasks.vital("engine", self._watch_worker)
        self._tasks.keep("ruleset", self._follow_ruleset)
        self._tasks.keep("beat", self._beat)
        self._tasks.keep("agents", self._sweep_agents)
        self._tasks.keep("old files", self._tidy)
        if self._tails is not None:
            self._tasks.vital("local files", self._tails.run)
        for note in self.session_settings.notes:
            log.warning("%s", note)

    async def stop(self) -> None:
        """Take nothing new, store what was taken, finish the event in hand and commit."""
        for server in self._servers:
            await server.close()
        if self._datagrams is not None:
            self._datagrams.close()
        await self._tasks.stop()
        if self._tails is not None:
            self._tails.stop()
            await self._tasks.ended("local files")
            self._tails.close()
        await self._watch.stop()
        if self.local_events is not None:
            self.local_events.stop()
            await self._tasks.ended("local events")
        if self.worker is not None:
            await asyncio.to_thread(self.worker.stop)
            await self._tasks.ended("engine")
        if self.local_events is not None:
            self.local_events.close()
        self._session_threads.shutdown(wait=False, cancel_futures=True)
        self.keeper.end()
        self._state_file.unlink(missing_ok=True)

    async def tend(self) -> None:
        """Put back the sockets that somebody has removed. Raises OSError."""
        for server in self._servers:
            await server.tend()
        if self._datagrams is not None:
            self._datagrams.tend()

    async def reload(self) -> None:
        """Read the ruleset's section and levels anew; all else changes at a restart."""
        await self._refresh(configuration=True)

    def statistics(self, agents: list[int] | None = None) -> dict[str, Any]:
        """Counters of the engine, or of agents."""
        shown: dict[str, Any] = {"uptime": self.tallies.since} if agents is None else {}
        shown |= {"timestamp": int(self._given.clock.now().timestamp()), "name": NAME}
        if agents is not None:
            return shown | {"agents": self.tallies.agent_metrics(agents)}
        return shown | {"metrics": self._metrics()}

    def counters(self) -> dict[str, Any]:
        """The statistics, and what operators of the engine want to know besides."""
        worker, local = self.worker, self.local_events
        if worker is None or local is None:
            return {}
        return self.statistics() | {
            "analysis": {
                "waits_for": worker.trouble or local.trouble,
                "waits": worker.waits,
                "possibly_repeated": worker.repeated,
                "lost": worker.feed.lost,
                "malformed": self.tallies.malformed,
                "failed": self.tallies.failed,
                "unwritten": self.tallies.unwritten,
                "kept_for_others": self.tallies.kept,
                "incomplete_firewall": worker.pipeline.incomplete,
                "positions": worker.feed.positions,
                "unread_bytes": worker.feed.unread(),
                "ingested": self._desk.ingested if self._desk else 0,
                "datagrams": self._datagrams.received if self._datagrams else 0,
                "local_lines": self._tails.lines if self._tails else 0,
                "outputs": self._given.counters.snapshot(),
            },
            "engines": worker.counters(),
            "ruleset": {
                "status": self.keeper.standing,
                "swaps": worker.swaps,
                "rejections": self.keeper.rejections,
            },
            "sessions": {"open": len(self.sessions), "evicted": self.sessions.evicted},
        }

    def active_config(self) -> dict[str, Any]:
        """Configuration in force by section."""
        given = self._given
        outputs = OutputSettings.of(given.config, given.options)
        ruleset = self.keeper.current.ruleset
        return active_config(given.config, given.options, outputs, self.session_settings, ruleset)

    # Starting

    async def _open_sources(self) -> None:
        given, limit = self._given, self._limits[1]
        journal = await asyncio.to_thread(
            JournalWriter, given.paths.local_events, given.clock, limit=limit, segment=limit // _SEGMENTS
        )
        self.local_events = BatchWriter(
            journal,
            size=given.options.get("analysisd.decode_event_queue_size"),
            max_bytes=MAX_LOCAL_BYTES,
            log=log,
            what="Local events",
        )
        self._tasks.vital("local events", self.local_events.run)
        self._datagrams = DatagramSource(given.paths.queue_socket, self.local_events)
        self.local_events.on_room = self._datagrams.resume
        if patterns := local_files(given.config):
            remembered = given.paths.root / "queue/logcollector/file_status.json"
            self._tails = Tails(patterns, remembered, given.clock, self.local_events.store)
            await self._tails.begin()

    async def _serve(self) -> None:
        assert self.local_events is not None, "opened first"
        assert self._datagrams is not None, "opened first"
        paths = self._given.paths
        self._desk = Desk(self.local_events, self.statistics, self._ruleset_status)
        limits = Limits(request=MAX_REQUEST, clients=MAX_CLIENTS)
        servers: list[FrameServer] = [CommandServer(paths.analysis_socket, self._desk.answer, limits)]
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
        except Exception:  # a fault in one session must not take the socket away; logged with its trace
            log.exception("A log test has failed")
            return FAILED

    async def _ruleset_status(self, refresh: bool) -> Mapping[str, Any]:
        if refresh:
            await self._refresh()
        return self.keeper.status()

    def _metrics(self) -> dict[str, Any]:
        metrics = self.tallies.metrics(self._queues())
        worker = self.worker
        if worker is not None and worker.credits.limit:
            available = worker.credits.available
            metrics["eps"] = {
                "available_credits": available,
                "available_credits_prev": available,
                "events_dropped": 0,
                "events_dropped_not_eps": 0,
                "seconds_over_limit": worker.credits.seconds_over,
            }
        return metrics

    def _queues(self) -> dict[str, tuple[int, float]]:
        """Sizes and how full they are: bytes of agents' events, messages of local sources, bytes of alerts."""
        worker, local = self.worker, self.local_events
        if worker is None or local is None:
            return {}
        waiting = (
            ("processed", self._limits[0], worker.feed.unread()[0]),
            ("others", local.size, local.usage),
            ("alerts", _ALERT_BYTES, worker.pipeline.outputs.waiting),
        )
        return {name: (size, round(min(1.0, used / size), 4)) for name, size, used in waiting}

    # Work of its own

    def _wake(self) -> None:
        self._changed.set()

    async def _follow_ruleset(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
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
        made: Compiled | None = await asyncio.to_thread(self.keeper.refresh, configuration=configuration)
        if made is not None and self.worker is not None:
            self.worker.swap(made.ruleset, made.sources)

    async def _watch_worker(self) -> None:
        """Raises what has ended the worker's thread."""
        await self._engine_ended.wait()
        if self.worker is not None and self.worker.failure is not None:
            raise self.worker.failure

    async def _beat(self) -> None:
        """End idle sessions, write the state file."""
        interval = self._given.options.get("analysisd.state_interval")
        clock, due = self._given.clock, 0.0
        while True:
            self.sessions.reap()
            if interval and clock.monotonic() >= due:
                due = clock.monotonic() + interval
                await asyncio.to_thread(self._write_state)
            await asyncio.sleep(_BEAT_SECONDS)

    @property
    def _state_file(self) -> Path:
        return self._given.paths.run / f"{NAME}.state"

    def _write_state(self) -> None:
        state = self.tallies.state(self._queues())
        lines = [f"# State of {NAME}", *(f"{name}='{value}'" for name, value in state.items())]
        try:
            write_file(self._state_file, ("\n".join(lines) + "\n").encode())
        except OSError as error:
            log.debug("The state file is not written: %s", os_text(error))

    async def _sweep_agents(self) -> None:
        while True:
            await asyncio.sleep(AGENTS_SECONDS)
            self.tallies.forget_all_but(await self._active_agents())

    async def _tidy(self) -> None:
        """Past days are signed and compressed, once each; what failed is tried again later."""
        given, done = self._given, date.min
        series = list(output_series(given.paths).values())
        compress = bool(given.options.get("monitord.compress"))
        sign = bool(given.options.get("monitord.sign"))
        while True:
            await asyncio.sleep(given.options.get("monitord.day_wait"))
            today = given.clock.now().astimezone().date()
            if today != done and await asyncio.to_thread(
                tidy, series, today, given.paths.root, compress=compress, sign=sign
            ):
                done = today
            await asyncio.sleep(60)
