"""The analysis thread: reads batches, writes their outputs, commits.

An event is done when its outputs are written. A full disk, or any other error of files, makes the thread wait and try
again: it reads nothing new meanwhile, the journals fill up, and their writers wait too.
"""

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.engine.event_rate_limit import EventRateLimit
from secmon.engine.input.backlog import Backlog, Chunk
from secmon.engine.input.event_feed import EventFeed
from secmon.engine.lookahead.decoder_pool import DecoderPool
from secmon.engine.lookahead.stateless import Lookahead
from secmon.engine.output.checkpoint import OutputCheckpoint, uncommitted_records
from secmon.engine.pipeline import Pipeline
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.sources import Sources
from secmon.engine.sources.observation import Observation
from secmon.engine.sources.source_table import SourceTable

log = logging.getLogger("secmon.analysisd")

IDLE_SECONDS = 0.02
"""Between two looks for events, for a second after the last ones."""
QUIET_SECONDS = 0.05
"""The same later: a quiet node looks less often."""
_LOOKS_BEFORE_QUIET = 50
_CARE_SECONDS = 0.5
"""Between two looks at the files of the outputs, while there are no events."""
RETRY_SECONDS = 1.0
RATE_LIMIT_SECONDS = 0.05
COMMIT_EVENTS = 500
"""Events between two commits, at most twice as many: what a crash repeats."""
SAVE_SECONDS = 10.0
"""Between two saves of the statistics of the hour."""
_LOGGED_BYTES = 200
_LOGGED_FRAMES, _LOGGED_TRACE = -6, 2000
"""The innermost frames of a failure, and characters of them."""
_FAILURES, _FAILURE_SECONDS = 3, 60.0
"""Failures of one kind that are logged in this time; the others are counted."""

Flush = Callable[[], None]


class AnalysisThread:
    """Start once, stop once; the rest may be called from any thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        feed: EventFeed,
        checkpoint: OutputCheckpoint,
        clock: Clock,
        *,
        host: bytes,
        rate_limit: EventRateLimit | None = None,
        flushes: Iterable[Flush] = (),
        pool: DecoderPool | None = None,
        sources: Sources | None = None,
        event_sources: SourceTable | None = None,
        observation: Observation | None = None,
    ) -> None:
        """``event_sources``: where events come from, and ``observation``: how far they are analysed.

        ``pool``: looks ahead with the ruleset of ``sources``; the thread closes it. ``flushes``: what else is
        written at a commit, after the outputs: a first-time key without its alert would suppress the alert of the
        repeated event. Each raises OSError while it cannot be written.
        """
        self.pipeline = pipeline
        self.feed = feed
        self.rate_limit = rate_limit or EventRateLimit(0, 1)
        self.waits_for = ""
        """The error that stops the analysis just now; empty when there is none."""
        self.waits = 0
        """Failed attempts to write."""
        self.repeated = 0
        """Records that may be written twice, because an earlier process died before it committed."""
        self.swaps = 0
        self.failure: BaseException | None = None
        self.on_end: Callable[[], object] = lambda: None
        """Called in the thread when it ends."""
        self._checkpoint = checkpoint
        self._clock = clock
        self._host = host
        self._flushes = tuple(flushes)
        self._since_commit = 0
        self._stopping = threading.Event()
        self.pool, self._sources = pool, sources
        self._event_sources = event_sources
        self._observation = observation or Observation(clock)
        self._backlog = Backlog(feed, clock, pool)
        self._next: deque[tuple[Ruleset, Sources | None]] = deque(maxlen=1)
        self._journal = 0
        """The journal of the event that is analysed just now."""
        if (cluster := pipeline.engine.state.cluster) is not None:
            cluster.place = lambda: (self._journal, feed.positions[self._journal])
        self._save_at = clock.monotonic() + SAVE_SECONDS
        self._care_at = clock.monotonic()
        self._failures = WarningLimiter(
            log, clock, window_seconds=_FAILURE_SECONDS, per_window=_FAILURES, level=logging.ERROR
        )
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the current event, write and commit; returns when that is done. Blocks."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def swap(self, ruleset: Ruleset, sources: Sources | None = None) -> None:
        """Use ``ruleset`` from the next event on. The pool follows when it has compiled ``sources``."""
        self._next.append((ruleset, sources))

    @property
    def ruleset(self) -> Ruleset:
        """The ruleset in use."""
        return self.pipeline.engine.ruleset

    def counters(self) -> dict[str, Any]:
        """How the work is shared with the pool."""
        pool, pipeline = self.pool, self.pipeline
        return {
            "engines": 1 + (pool.size if pool is not None else 0),
            "decoders_ready": pool.ready if pool is not None else 0,
            "decoder_restarts": pool.restarts if pool is not None else 0,
            "looked_ahead": pipeline.looked_ahead,
            "in_line": pipeline.event_counters.received - pipeline.looked_ahead,
            "resumed": pipeline.resumed,
        }

    def _run(self) -> None:
        try:
            if self.pool is not None:
                self.pool.load(self._sources, self.ruleset.settings)
            if self._retry(self._open_outputs):
                self._work()
                self._finish()
        except BaseException as error:  # kept for the daemon, which ends with it
            log.critical("The analysis has failed", exc_info=error)
            self.failure = error
        finally:
            self.on_end()
            if self.pool is not None:
                self.pool.close()
            self.pipeline.outputs.close()
            self._checkpoint.close()
            self.feed.close()

    def _work(self) -> None:
        looks = 0
        while not self._stopping.is_set():
            looks = 0 if self.step() else looks + 1
            if looks:
                self._stopping.wait(IDLE_SECONDS if looks < _LOOKS_BEFORE_QUIET else QUIET_SECONDS)

    def step(self) -> bool:
        """Analyse the events that are there, in the order of the journals; whether there were any."""
        self._swap_due()
        self._take_hits()
        self._failures.tick()
        if self.pool is not None:
            self.pool.maintain()
        before = self._observation.now()
        if not self._backlog and not self._retry(self._backlog.read):
            return False
        count = len(self._backlog)
        if (count or self._clock.monotonic() >= self._care_at) and not self._retry(self._begin_batch):
            return False
        if not count:
            self._observation.reached = before
        for _ in range(count):
            self._backlog.submit()
            if self._backlog.low:
                self._retry(self._backlog.read)
                self._backlog.submit()
            self._analyse(self._backlog.take())
        if self._since_commit:
            self._commit()
        return bool(count)

    def _analyse(self, chunk: Chunk) -> None:
        """Analyse a chunk, and commit when enough events are done; at a stop the rest is left."""
        if self._stopping.is_set():
            return
        self._take_hits()
        self._journal = chunk.journal
        known = self._backlog.lookahead(chunk, self.pipeline.engine)
        allowed = 0
        for at, data in enumerate(chunk.events):
            if self._next:
                self._swap_due()
                known = ()  # of the previous ruleset
            if not allowed and not chunk.of_decoded_events:  # whose messages took their share when they were received
                allowed = self._wait_for_rate_limit(len(chunk.events) - at)
            ahead = known[at] if at < len(known) else None
            if self._stopping.is_set() or not self._handle(chunk, data, ahead):
                return
            allowed -= 1
            self.feed.advance(chunk.journal, chunk.first + at + 1)
        self._note_sources(chunk)
        self._since_commit += len(chunk.events)
        if self._since_commit >= COMMIT_EVENTS:
            self._commit()

    def _note_sources(self, chunk: Chunk) -> None:
        if chunk.journal == self.feed.of_agents:
            moment = int(chunk.moment.timestamp())
            if self._event_sources is not None:
                self._event_sources.note(chunk.events, moment)
            self._observation.reached = moment

    def _wait_for_rate_limit(self, wanted: int) -> int:
        """Wait until some of ``wanted`` events may be analysed; how many. 0 only at a stop."""
        while not (taken := self.rate_limit.take(wanted, self._clock.monotonic())):
            if self._stopping.wait(RATE_LIMIT_SECONDS):
                break
        return taken

    def _handle(self, chunk: Chunk, data: bytes, ahead: bytes | Lookahead | None) -> bool:
        """Whether the event is done; it is not when the stop comes while it must wait."""
        pipeline, moment = self.pipeline, chunk.moment
        try:
            if chunk.of_decoded_events:
                return self._retry(lambda: pipeline.handle_decoded(data, moment))
            return self._retry(lambda: pipeline.handle(data, moment, ahead))
        except Exception as error:  # noqa: BLE001 - logged, counted: one event must not end the analysis of all others
            return self._failed(chunk, data, error)

    def _failed(self, chunk: Chunk, data: bytes, error: Exception) -> bool:
        """Count the event, log it within the limit, write it as it came; whether it is done."""
        counters = self.pipeline.event_counters
        counters.failed += 1
        trace = "".join(traceback.format_exception(error, limit=_LOGGED_FRAMES))[-_LOGGED_TRACE:]
        self._failures.warn(
            type(error).__name__, "An event could not be analysed: %r\n%s", data[:_LOGGED_BYTES], trace.rstrip()
        )
        try:
            return self._retry(
                lambda: self.pipeline.write_unanalysed(data, chunk.moment, decoded=chunk.of_decoded_events)
            )
        except Exception as again:  # noqa: BLE001 - counted, and logged as above
            counters.unwritten += 1
            self._failures.warn("unwritten", "The event could not be written unanalysed either: %r", again)
            return True

    def _take_hits(self) -> None:
        """Remember what other nodes have reported, for composites that count it."""
        state = self.pipeline.engine.state
        if state.cluster is not None and state.cluster.waiting:
            state.cluster.take(state.ignored_since, self._clock.now().timestamp())

    def _swap_due(self) -> None:
        if self._next:
            ruleset, sources = self._next.pop()
            self.pipeline.swap(ruleset, self._host)
            if self.pool is not None:
                self.pool.load(sources, ruleset.settings)
            self._backlog.invalidate()
            self.swaps += 1

    def _begin_batch(self) -> None:
        now = self._clock.monotonic()
        self.pipeline.begin_batch(self._clock.now().astimezone())
        if now >= self._save_at:
            self.pipeline.statistics.save()
            self._save_at = now + SAVE_SECONDS
        self._care_at = now + _CARE_SECONDS

    def _open_outputs(self) -> None:
        """Open the outputs as an earlier process left them, and count what may be written twice."""
        self.pipeline.begin_batch(self._clock.now().astimezone())
        sizes = self.pipeline.outputs.sizes()
        committed = self._checkpoint.load()
        if committed is not None:
            self.repeated = uncommitted_records(committed, sizes)
            self._log_cut_records(committed)
        if self.repeated:
            log.warning("%d alerts or archived events may be written again: an earlier process died", self.repeated)
        self._checkpoint.store(sizes)

    def _log_cut_records(self, committed: Mapping[str, int]) -> None:
        """Whether the event of a cut record is analysed again: not if the file is shorter than at the last commit."""
        for path, size in self.pipeline.outputs.cut_records.items():
            if size > committed.get(path, 0):
                log.warning("%s: the event of the cut record is analysed again", path)
            else:
                log.error("%s: records were lost after their commit; their events are not analysed again", path)

    def _commit(self) -> None:
        """Write all outputs, then the positions."""
        self._since_commit = 0
        if not all(self._retry(flush) for flush in (self.pipeline.outputs.flush, *self._flushes)):
            return
        if self._retry(self.feed.commit):
            self._retry(lambda: self._checkpoint.store(self.pipeline.outputs.sizes()))

    def _finish(self) -> None:
        self._failures.flush()
        self._commit()
        try:
            self.pipeline.statistics.save()
        except OSError as error:
            log.error("The statistics of this hour are lost: %s", os_text(error))

    def _retry(self, action: Callable[[], None]) -> bool:
        """Repeat ``action`` until it raises no OSError or the stop comes; whether it succeeded."""
        while True:
            try:
                action()
            except OSError as error:
                self._log_wait(os_text(error))
                if self._stopping.wait(RETRY_SECONDS):
                    return False
            else:
                if self.waits_for:
                    log.info("The analysis continues")
                    self.waits_for = ""
                return True

    def _log_wait(self, reason: str) -> None:
        self.waits += 1
        if reason != self.waits_for:
            self.waits_for = reason
            log.error("The analysis waits, nothing is lost: %s", reason)
