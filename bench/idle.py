"""Cost of an idle cluster: processor time, memory, bytes on the links."""

import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from bench.harness import Aim, Figure
from bench.nodes import Bench, processes, say
from tests.integration.kit import RealCluster, RealNode

WORKERS = 19
FILES = 20_000
SETTLE_SECONDS = 15.0
WINDOW_SECONDS = 61.0
"""Longer than one period of anti-entropy."""
_PID, _SENT = re.compile(r"pid=(\d+)"), re.compile(r"bytes_sent:(\d+)")
_LIBRARIES = "uvicorn, starlette.applications, grpc.aio, msgspec, sqlalchemy, cryptography.x509, argon2, watchdog, jwt"
_EMPTY_BEATS = 2 * (22 + 9 + 5)
"""Bytes of an empty message each way: a TLS record, an HTTP/2 frame, gRPC's prefix."""


@dataclass
class Sample:
    """A window without work. ``cpu`` is in percent of one core, ``rss`` in megabytes, by node."""

    cpu: dict[str, float]
    rss: dict[str, float]
    processes: dict[str, int]
    sent: float | None
    """Bytes a minute, of all nodes together."""


def measure(bench: Bench) -> list[Figure]:
    """The same cluster without files and with many."""
    empty = _sample(bench, 0)
    full = _sample(bench, 200 if bench.quick else FILES)
    files = f"{200 if bench.quick else FILES} files"
    libraries = _libraries_alone()
    figures: list[Figure] = []
    for node, label in (
        ("master-node", f"master of {WORKERS}"),
        ("worker1", "worker"),
        ("worker2", "worker in one process"),
    ):
        figures += [
            Figure(
                name=f"idle {label}, {files}",
                value=full.cpu[node],
                unit="% core",
                floor=empty.cpu[node],
                floor_is="0 files",
            ),
            Figure(
                name=f"  memory, {files}", value=full.rss[node], unit="MB", floor=empty.rss[node], floor_is="0 files"
            ),
            Figure(
                name="  memory, 0 files",
                value=empty.rss[node],
                unit="MB",
                floor=libraries * empty.processes[node],
                floor_is="its processes, libraries only",
            ),
        ]
    if empty.sent is None or full.sent is None:
        bench.notes.append("idle: bytes on the links not counted, ss is not installed (apt-get install iproute2)")
        return figures
    return [
        *figures,
        Figure(name=f"idle links of {WORKERS + 1} nodes, 0 files", value=empty.sent / 1000, unit="kB/min",
               floor=_EMPTY_BEATS * WORKERS * 60 / 1000, floor_is="empty beats"),
        Figure(name=f"idle links of {WORKERS + 1} nodes, {files}", value=full.sent / 1000, unit="kB/min",
               floor=empty.sent / 1000, floor_is="0 files", aim=Aim(bound=1.05)),
    ]  # fmt: skip


def _sample(bench: Bench, files: int) -> Sample:
    cluster = bench.cluster(WORKERS, files=files)
    window = 10.0 if bench.quick else WINDOW_SECONDS
    say(f"letting {WORKERS + 1} nodes with {files} files be idle for {window:.0f} s")
    time.sleep(SETTLE_SECONDS)
    used, sent, start = _used(cluster), _sent(cluster), time.perf_counter()
    time.sleep(window)
    taken = time.perf_counter() - start
    later = _sent(cluster)
    cpu = {name: (after - used[name]) / taken * 100 for name, after in _used(cluster).items()}
    rss = {node.name: _memory(node) for node in cluster.nodes}
    grown = None
    if sent is not None and later is not None:
        grown = sum(count - sent.get(link, 0) for link, count in later.items()) / taken * 60
    return Sample(cpu, rss, {node.name: len(processes(node)) for node in cluster.nodes}, grown)


def _used(cluster: RealCluster) -> dict[str, float]:
    """Seconds of processor time by node, since its start."""
    return {node.name: sum(sum(process.cpu_times()[:2]) for process in processes(node)) for node in cluster.nodes}


def _memory(node: RealNode) -> float:
    return sum(process.memory_info().rss for process in processes(node)) / 1e6


def _sent(cluster: RealCluster) -> dict[str, int] | None:
    """Bytes sent so far on each TCP connection of the nodes; both ends are nodes, so each byte counts once."""
    if shutil.which("ss") is None:
        return None
    pids = {str(process.pid) for node in cluster.nodes for process in processes(node)}
    lines = subprocess.run(["ss", "-tinpHO", "state", "established"], capture_output=True, text=True, check=True)
    found: dict[str, int] = {}
    for line in lines.stdout.splitlines():
        count = _SENT.search(line)
        if count and pids & set(_PID.findall(line)):
            found[" ".join(line.split()[2:4])] = int(count[1])
    return found


def _libraries_alone() -> float:
    """Megabytes of an idle process that has imported the libraries of a node."""
    code = f"import {_LIBRARIES}; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
        process.terminate()
    return memory
