"""The thread that analyses: reads batches, writes what they yield, commits, and begins again.

An event is done with when what it left behind is written. A disk that is full, or any other trouble with files, makes
the thread wait and try again: it reads nothing new meanwhile, the journals fill up and those who fill them wait too.
"""

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.engine.input.backlog import Backlog, Piece
from secmon.engine.input.journals import Feed, Ledger
from secmon.engine.lookahead.pool import Crew
from secmon.engine.lookahead.prepare import Prepared
from secmon.engine.pipeline import Credits, Pipeline
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.files import Sources

log = logging.getLogger("secmon.analysisd")

IDLE_SECONDS = 0.02
RETRY_SECONDS = 1.0
CREDIT_SECONDS = 0.05
COMMIT_EVENTS = 500
"""Events between two commits, at most twice as many: what a death repeats."""
SAVE_SECONDS = 10.0
"""Between two savings of the statistics of the hour."""
_SHOWN_BYTES = 200
_SHOWN_FRAMES, _SHOWN_TRACE = -6, 2000
"""The innermost frames of a failure, and characters of it."""
_FAILURES, _FAILURE_SECONDS = 3, 60.0
"""Failures of one kind that are logged in so many seconds; the others are counted."""

Flush = Callable[[], None]


class Worker:
    """Start once, stop once; the rest may be called from any thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        feed: Feed,
        ledger: Ledger,
        clock: Clock,
        *,
        host: bytes,
        credits_: Credits | None = None,
        flushes: Iterable[Flush] = (),
        crew: Crew | None = None,
        sources: Sources | None = None,
    ) -> None:
        """``crew``: looks ahead with the ruleset of ``sources``; the worker closes it. ``flushes``: what else must be
        written before a commit, and after the outputs: what is remembered as seen without its alert would never be
        told. Each raises OSError while it cannot be written.
        """
        self.pipeline = pipeline
        self.feed = feed
        self.credits = credits_ or Credits(0, 1)
        self.trouble = ""
        """Why nothing goes on just now; empty when all is well."""
        self.waits = 0
        """Times that something could not be written."""
        self.repeated = 0
        """Records that may stand twice in the outputs, because an earlier process died before it could commit."""
        self.swaps = 0
        self.failure: BaseException | None = None
        self.on_end: Callable[[], object] = lambda: None
        """Called in the thread when its work has ended."""
        self._ledger = ledger
        self._clock = clock
        self._host = host
        self._flushes = tuple(flushes)
        self._since_commit = 0
        self._stopping = threading.Event()
        self.crew, self._sources = crew, sources
        self._backlog = Backlog(feed, clock, crew)
        self._next: deque[tuple[Ruleset, Sources | None]] = deque(maxlen=1)
        self._save_at = clock.monotonic() + SAVE_SECONDS
        self._warnings = WarningLimiter(
            log, clock, window_seconds=_FAILURE_SECONDS, per_window=_FAILURES, level=logging.ERROR
        )
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the event in hand, write and commit; returns when that is done. Blocks."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def swap(self, ruleset: Ruleset, sources: Sources | None = None) -> None:
        """Use ``ruleset``, made of ``sources``, from the next event on; helpers follow when they have compiled it."""
        self._next.append((ruleset, sources))

    @property
    def ruleset(self) -> Ruleset:
        """What is in force."""
        return self.pipeline.engine.ruleset

    def counters(self) -> dict[str, Any]:
        """How the work is shared."""
        crew, pipeline = self.crew, self.pipeline
        return {
            "engines": 1 + (crew.size if crew is not None else 0),
            "helpers_ready": crew.ready if crew is not None else 0,
            "helper_restarts": crew.restarts if crew is not None else 0,
            "by_helpers": pipeline.by_others,
            "in_line": pipeline.tallies.received - pipeline.by_others,
            "asked_again": pipeline.asked_again,
        }

    def _run(self) -> None:
        try:
            if self.crew is not None:
                self.crew.use(self._sources, self.ruleset.settings)
            if self._insist(self._open):
                while not self._stopping.is_set():
                    if not self.step():
                        self._stopping.wait(IDLE_SECONDS)
                self._finish()
        except BaseException as error:  # whatever it is, the daemon must hear of it: its process ends with it
            log.critical("The analysis has failed", exc_info=error)
            self.failure = error
        finally:
            self.on_end()
            if self.crew is not None:
                self.crew.close()
            self.pipeline.outputs.close()
            self._ledger.close()
            self.feed.close()

    def step(self) -> bool:
        """What has come, in the order of the journals; whether there was anything."""
        self._swap()
        self._warnings.tick()
        if self.crew is not None:
            self.crew.tend()
        if not self._insist(self._turn) or not (self._backlog or self._insist(self._backlog.read)):
            return False
        count = len(self._backlog)
        for _ in range(count):
            self._backlog.hand_out()
            if self._backlog.short:
                self._insist(self._backlog.read)
                self._backlog.hand_out()
            self._some(self._backlog.take())
        if self._since_commit:
            self._commit()
        return bool(count)

    def _some(self, piece: Piece) -> None:
        """Analyse, and commit now and then; at a stop the rest is left."""
        if self._stopping.is_set():
            return
        known = self._backlog.found_out(piece, self.pipeline.engine)
        allowed = 0
        for at, data in enumerate(piece.events):
            if self._next:
                self._swap()
                known = ()  # by the ruleset of before
            if not allowed:
                allowed = self._credit(len(piece.events) - at)
            ahead = known[at] if at < len(known) else None
            if self._stopping.is_set() or not self._handle(data, piece.moment, ahead):
                return
            allowed -= 1
            self.feed.done(piece.journal, piece.first + at + 1)
        self._since_commit += len(piece.events)
        if self._since_commit >= COMMIT_EVENTS:
            self._commit()

    def _credit(self, wanted: int) -> int:
        """Wait until some of ``wanted`` events may go on; 0 only at a stop."""
        while not (taken := self.credits.take(wanted, self._clock.monotonic())):
            if self._stopping.wait(CREDIT_SECONDS):
                break
        return taken

    def _handle(self, data: bytes, moment: datetime, ahead: bytes | Prepared | None) -> bool:
        """Whether the event is done with; it is not when the stop comes while it must wait."""
        try:
            return self._insist(lambda: self.pipeline.handle(data, moment, ahead))
        except Exception as error:  # noqa: BLE001 - logged, counted: one event must not end the analysis of all others
            return self._failed(data, moment, error)

    def _failed(self, data: bytes, moment: datetime, error: Exception) -> bool:
        """Count the event, log it with a bound, write it as it came; whether it is done with."""
        tallies = self.pipeline.tallies
        tallies.failed += 1
        trace = "".join(traceback.format_exception(error, limit=_SHOWN_FRAMES))[-_SHOWN_TRACE:]
        self._warnings.warn(
            type(error).__name__, "An event could not be analysed: %r\n%s", data[:_SHOWN_BYTES], trace.rstrip()
        )
        try:
            return self._insist(lambda: self.pipeline.rescue(data, moment))
        except Exception as second:  # noqa: BLE001 - whatever it is, it is counted, and logged as above
            tallies.unwritten += 1
            self._warnings.warn("unwritten", "It could not be written as it came either: %r", second)
            return True

    def _swap(self) -> None:
        if self._next:
            ruleset, sources = self._next.pop()
            self.pipeline.swap(ruleset, self._host)
            if self.crew is not None:
                self.crew.use(sources, ruleset.settings)
            self._backlog.void()
            self.swaps += 1

    def _turn(self) -> None:
        now = self._clock.now().astimezone()
        self.pipeline.turn(now)
        if self._clock.monotonic() >= self._save_at:
            self.pipeline.statistics.save()
            self._save_at = self._clock.monotonic() + SAVE_SECONDS

    def _open(self) -> None:
        """The outputs as an earlier process left them."""
        self.pipeline.turn(self._clock.now().astimezone())
        ends = self.pipeline.outputs.ends()
        self.repeated = self._ledger.repeated(ends)
        if self.repeated:
            log.warning("%d alerts or archived events may be written again: an earlier process died", self.repeated)
        self._ledger.note(ends)

    def _commit(self) -> None:
        """Write all that waits, then say how far it is done."""
        self._since_commit = 0
        if not all(self._insist(flush) for flush in (self.pipeline.outputs.flush, *self._flushes)):
            return
        if self._insist(self.feed.commit):
            self._insist(lambda: self._ledger.note(self.pipeline.outputs.ends()))

    def _finish(self) -> None:
        self._warnings.flush()
        self._commit()
        try:
            self.pipeline.statistics.save()
        except OSError as error:
            log.error("The statistics of this hour are lost: %s", os_text(error))

    def _insist(self, action: Callable[[], None]) -> bool:
        """Repeat ``action`` until it works or the stop comes; whether it worked."""
        while True:
            try:
                action()
            except OSError as error:
                self._complain(os_text(error))
                if self._stopping.wait(RETRY_SECONDS):
                    return False
            else:
                if self.trouble:
                    log.info("The analysis goes on")
                    self.trouble = ""
                return True

    def _complain(self, trouble: str) -> None:
        self.waits += 1
        if trouble != self.trouble:
            self.trouble = trouble
            log.error("The analysis waits, nothing is lost: %s", trouble)
