"""Events a second through the whole analysis, from the journal to the files, with one engine and with two."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path

from bench.harness import Figure, median_figure
from secmon.engine.input.predecode import Message
from secmon.engine.ruleset.sources import Sources, compile_sources
from tests.engine.analysis_kit import Analysis, analysing
from tests.waiting import wait_until

EVENTS, QUICK_EVENTS = 20_000, 4000
"""Events of one round."""
ENGINES = 2
_LOOK_SECONDS = 0.01
_GIVE_UP_SECONDS = 120.0


def measure(name: str, sources: Sources, messages: Sequence[Message], rounds: int, *, quick: bool) -> list[Figure]:
    """Both in turn, round by round, so that other load affects both."""
    ruleset, number = compile_sources(sources), QUICK_EVENTS if quick else EVENTS
    events = [b"%b:%b:%b" % (one.queue.encode(), one.location, one.log) for one in islice(cycle(messages), number)]
    rates: dict[int, list[float]] = {1: [], ENGINES: []}
    times: dict[int, list[float]] = {1: [], ENGINES: []}
    with ExitStack() as stack:
        analyses = {}
        for engines in rates:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="secmon-bench-")))
            analyses[engines] = stack.enter_context(analysing(folder, ruleset, engines=engines, sources=sources))
        for _ in range(rounds + 1):
            for engines, analysis in analyses.items():
                started = time.process_time()
                rates[engines].append(_rate(analysis, events))
                times[engines].append((time.process_time() - started) / number * 1e6)
    one, more = (found[1:] for found in rates.values())  # the first round fills the memories
    alone, shared = (found[1:] for found in times.values())
    name = f"analysis, journal to files, {name} ruleset"
    return [
        median_figure(f"{name}, one engine", one, "events/s"),
        median_figure(
            f"{name}, {ENGINES} engines", more, "events/s", floor=statistics.median(one), floor_is="one engine"
        ),
        median_figure(f"{name}, processor time of an event, one engine", alone, "us"),
        median_figure(
            f"{name}, processor time of an event in the daemon, {ENGINES} engines",
            shared,
            "us",
            floor=statistics.median(alone),
            floor_is="one engine",
        ),
    ]


def _rate(analysis: Analysis, events: Sequence[bytes]) -> float:
    """Events a second until the last one is analysed."""
    thread = analysis.thread
    wait_until(
        lambda: thread.counters()["decoders_ready"] == thread.counters()["engines"] - 1, what="decoder processes"
    )
    started = time.perf_counter()
    analysis.send(events)
    wanted = analysis.writers[0].next
    while thread.feed.positions[0] < wanted:
        if thread.failure is not None or time.perf_counter() - started > _GIVE_UP_SECONDS:
            raise RuntimeError("the analysis has failed")
        time.sleep(_LOOK_SECONDS)
    return len(events) / (time.perf_counter() - started)
