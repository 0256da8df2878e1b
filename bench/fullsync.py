"""All group files to a new worker, against ``rsync -a`` from a daemon over the loopback interface."""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import Figure, median_figure
from bench.nodes import Bench, fill, say, start
from tests.integration.kit import RealNode, free_port
from tests.waiting import wait_until

FILES = 20_000
QUICK_FILES = 2_000
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02
_JOINED = "joined cluster"


def measure(bench: Bench) -> list[Figure]:
    """The two in turn, each time to an empty place; skipped with a note if rsync is not installed."""
    if shutil.which("rsync") is None:
        bench.notes.append("sync: skipped, rsync is not installed (apt-get install rsync, dnf install rsync)")
        return []
    files, rounds = (QUICK_FILES, 1) if bench.quick else (FILES, 3)
    cluster = bench.cluster(0)
    source = cluster.master.paths.root / "etc/shared"
    fill(cluster.master.paths.root, files)
    merged = [group / "merged.mg" for group in source.glob("bench*")]
    wait_until(lambda: all(file.exists() for file in merged), seconds=_PATIENCE_SECONDS, what="all groups merged")
    ours: list[float] = []
    plain: list[float] = []
    durable: list[float] = []
    with _daemon(source) as url:
        for number in range(rounds):
            say(f"{files} files to a new worker, and by rsync ({number + 1}/{rounds})")
            ours.append(_joined(bench.add_worker(f"new{number}"), source))
            plain.append(_rsync(url, source))
            durable.append(_rsync(url, source, "--fsync"))
    bench.stop()  # the cluster is no longer empty
    name = f"full sync of {files} files"
    return [
        median_figure(name, ours, "s", floor=statistics.median(plain), floor_is="rsync -a"),
        median_figure("  as durable", ours, "s", floor=statistics.median(durable), floor_is="rsync -a --fsync"),
    ]


def _joined(node: RealNode, source: Path) -> float:
    """Seconds from the moment the node has joined until it holds the files; it is stopped and removed."""
    log = node.paths.logs / "cluster.log"
    try:
        start(node)
        wait_until(lambda: log.exists() and _JOINED in log.read_text(), seconds=_PATIENCE_SECONDS, what="joined")
        began = time.perf_counter()
        target = node.paths.root / "etc/shared"
        left = {group.name: len(os.listdir(group)) for group in source.glob("bench*")}
        while left:
            _forget_complete(target, left)
            if time.perf_counter() - began > _PATIENCE_SECONDS:
                raise RuntimeError(f"not within {_PATIENCE_SECONDS} s: {len(left)} groups are not complete")
            time.sleep(_POLL_SECONDS)
        taken = time.perf_counter() - began
        _compare(source, target)
        return taken
    finally:
        node.stop()
        shutil.rmtree(node.paths.root)


def _rsync(url: str, source: Path, *options: str) -> float:
    """Seconds that rsync takes to an empty folder on the same disk."""
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as folder:
        began = time.perf_counter()
        subprocess.run(["rsync", "-a", *options, url, folder], check=True, timeout=_PATIENCE_SECONDS)
        taken = time.perf_counter() - began
        _compare(source, Path(folder))
    return taken


@contextmanager
def _daemon(source: Path) -> Iterator[str]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as folder:
        config = Path(folder) / "rsyncd.conf"
        config.write_text(f"[bench]\npath = {source}\nread only = yes\nuse chroot = no\nuid = root\ngid = root\n")
        command = ["rsync", "--daemon", "--no-detach", f"--config={config}", f"--port={port}", "--address=127.0.0.1"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            url = f"rsync://127.0.0.1:{port}/bench/"
            try:
                wait_until(lambda: subprocess.run(["rsync", url], capture_output=True, check=False).returncode == 0)
                yield url
            finally:
                process.terminate()


def _forget_complete(target: Path, left: dict[str, int]) -> None:
    """Remove the groups with all their files from ``left``, up to the first incomplete one: checks cost time."""
    for name in sorted(left):
        try:
            found = len(os.listdir(target / name))
        except FileNotFoundError:
            return
        if found < left[name]:
            return
        del left[name]


def _compare(source: Path, target: Path) -> None:
    """Raises RuntimeError unless the group files are the same."""
    for group in source.glob("bench*"):
        for file in group.iterdir():
            if file.read_bytes() != (target / group.name / file.name).read_bytes():
                raise RuntimeError(f"{target / group.name / file.name} differs")
