"""The analysis of logs beside a first synchronization: its rate and processor time, and the memory of secmon-db."""

import asyncio
import re
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.engine import ROOT, sample
from bench.harness import Aim, Figure, median_figure
from bench.inventory import AGENTS, state
from bench.nodes import Bench, say
from secmon.agents.link.client import LinkClient
from secmon.engine.ruleset.sources import collect_folder, compile_sources
from secmon.journal.segments import consumers
from tests.integration.kit import RealNode
from tests.waiting import wait_until

LOGS, ROUNDS = 40_000, 5
"""Logs of a round, and as many rows where it has rows: each process has work all the time."""
_BLOCK = 500
"""Lines of one kind that follow each other in the journal."""
_LOOK_SECONDS = 0.01
_ANALYSIS, _STORE = "secmon-analysisd", "secmon-db"
_READERS = {_ANALYSIS: "analysisd", _STORE: "inventory"}
"""Readers of the journal, by daemon."""
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class Round(NamedTuple):
    """Logs analysed in a second; microseconds of processor time of a log in the analysis, and of a row in the store."""

    rate: float
    log: float
    row: float


def measure(bench: Bench) -> list[Figure]:
    """Rounds with and without rows in turn, on the same node and cores, so that other load affects both."""
    bench.stop()  # the memory of a node that has stored nothing
    node = bench.cluster(0).master
    number, rounds = (4000, 2) if bench.quick else (LOGS, ROUNDS)
    messages = sample(compile_sources(collect_folder(ROOT / "ruleset")))
    lines = [b"%b:%b:%b" % (one.queue.encode(), one.location, one.log) for one in messages]
    logs = list(islice(cycle(lines), number))
    before = _process(node, _STORE).memory_info().rss
    alone, beside = [], []
    _round(node, logs, [])  # fills the memories of the analysis
    for turn in range(rounds):
        say(f"round {turn + 1} of {rounds}")
        alone.append(_round(node, logs, []))
        rows = [state(each % AGENTS + 1, each // AGENTS) for each in range(turn * number, (turn + 1) * number)]
        beside.append(_round(node, logs, rows))
    figures = [*_rates(alone, beside), *_memory(node, before, rounds * number)]
    bench.stop()
    return figures


def _rates(alone: Sequence[Round], beside: Sequence[Round]) -> Iterator[Figure]:
    floor = statistics.median(each.rate for each in alone)
    yield median_figure(
        "analysis of logs while secmon-db stores as many rows",
        [each.rate for each in beside],
        "events/s",
        floor=floor,
        floor_is="without rows",
        aim=Aim(bound=0.9, least=True),
    )
    yield median_figure(
        "  processor time of the analysis for a log",
        [each.log for each in beside],
        "us",
        floor=statistics.median(each.log for each in alone),
        floor_is="without rows",
    )
    yield median_figure("  processor time of secmon-db for a row", [each.row for each in beside], "us")


def _memory(node: RealNode, before: int, rows: int) -> Iterator[Figure]:
    process = _process(node, _STORE)
    peak = _PEAK.search(Path(f"/proc/{process.pid}/status").read_text())
    assert peak is not None, "the kernel gives the peak"
    found = {"before": before, "peak": int(peak[1]) << 10, "after": process.memory_info().rss}
    for name, size in found.items():
        yield Figure(name=f"memory of secmon-db, {name} {rows} rows of {AGENTS} agents", value=size / 1e6, unit="MB")


def _round(node: RealNode, logs: Sequence[bytes], rows: Sequence[bytes]) -> Round:
    """Both readers find all lines in the journal, and begin at once."""
    positions = _positions(node)
    end = positions["analysisd"] + len(logs) + len(rows)
    with _halted(node):
        asyncio.run(_append(node, logs, rows))
        before = {daemon: _seconds(node, daemon) for daemon in _READERS}
    started = time.perf_counter()
    _wait(node, "analysisd", end)
    taken = time.perf_counter() - started
    _wait(node, "inventory", end)
    used = {daemon: _seconds(node, daemon) - before[daemon] for daemon in _READERS}
    return Round(len(logs) / taken, used[_ANALYSIS] / len(logs) * 1e6, used[_STORE] / max(1, len(rows)) * 1e6)


async def _append(node: RealNode, logs: Sequence[bytes], rows: Sequence[bytes]) -> None:
    link = LinkClient(node.paths.agent_link_socket)
    for start in range(0, len(logs), _BLOCK):
        for lines in (logs[start : start + _BLOCK], rows[start : start + _BLOCK]):
            taken = await link.record(lines)
            assert taken == len(lines), "the journal is full"


@contextmanager
def _halted(node: RealNode) -> Iterator[None]:
    """The readers do not work."""
    for daemon in _READERS:
        node.signal(daemon, signal.SIGSTOP)
    try:
        yield
    finally:
        for daemon in _READERS:
            node.signal(daemon, signal.SIGCONT)


def _positions(node: RealNode) -> dict[str, int]:
    """Of the readers, when all have read everything."""

    def equal() -> dict[str, int]:
        found = consumers(node.paths.events)
        same = {name: number for name, number in found.items() if number is not None and name in _READERS.values()}
        return same if len(same) == len(_READERS) and len(set(same.values())) == 1 else {}

    return wait_until(equal, what="an idle node")


def _wait(node: RealNode, reader: str, end: int) -> None:
    while (consumers(node.paths.events)[reader] or 0) < end:
        time.sleep(_LOOK_SECONDS)


def _process(node: RealNode, daemon: str) -> psutil.Process:
    pid = node.pid(daemon)
    if pid is None:
        raise RuntimeError(f"{daemon} does not run")
    return psutil.Process(pid)


def _seconds(node: RealNode, daemon: str) -> float:
    """Processor time of a daemon and its processes."""
    process = _process(node, daemon)
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))
