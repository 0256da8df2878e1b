"""From a change on the master until every worker has it."""

import statistics
import time
from pathlib import Path

from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from secmon.common.file_io import write_file
from tests.integration.kit import RealCluster

FILE = "etc/shared/default/agent.conf"
SIZES = {2: 150.0, 19: 500.0}
"""Workers, and the milliseconds that a file may take to all of them."""
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.001


def measure(bench: Bench) -> list[Figure]:
    """One file, and one change of the security state, at each size of cluster."""
    rounds = 5 if bench.quick else 25
    files: list[Figure] = []
    security: list[Figure] = []
    alone: float | None = None
    for workers in (0, *SIZES):
        cluster = bench.cluster(workers)
        say(f"security changes to {workers} workers")
        taken = _security_changes(bench, cluster, rounds)
        if alone is None:
            alone = statistics.median(taken)
            continue
        name = f"security change acknowledged by {workers}"
        security.append(median_figure(name, taken, "ms", floor=alone, floor_is="master without workers"))
        say(f"file changes to {workers} workers")
        files.append(_files(cluster, rounds, SIZES[workers]))
    return [*files, *security]


def _files(cluster: RealCluster, rounds: int, bound: float) -> Figure:
    workers = [worker.paths.root / FILE for worker in cluster.workers]
    copies = [worker.paths.root / "tmp-bench" for worker in cluster.workers]
    master = cluster.master.paths.root / FILE
    master.parent.mkdir(parents=True, exist_ok=True)
    taken: list[float] = []
    floors: list[float] = []
    for number in range(rounds + 1):
        content = f"# change {number}\n".encode() * 100
        floors.append(_copied(copies, content))
        start = time.perf_counter()
        master.write_bytes(content)
        _await(workers, content)
        taken.append((time.perf_counter() - start) * 1000)
        time.sleep(0.1)  # until the nodes are idle: a change during another one is not measured here
    return median_figure(
        f"file saved until right on {len(workers)}", taken[1:], "ms", floor=statistics.median(floors[1:]),
        floor_is="as many durable copies", aim=Aim(bound=bound, of="value"),
    )  # fmt: skip


def _copied(paths: list[Path], content: bytes) -> float:
    """Milliseconds to write ``content`` to each of ``paths`` durably, one after the other."""
    start = time.perf_counter()
    for path in paths:
        write_file(path, content)
    return (time.perf_counter() - start) * 1000


def _await(paths: list[Path], content: bytes) -> None:
    """Return when every file has ``content``; a file is read again only when it is another one."""
    seen: dict[Path, tuple[int, int]] = {}
    left = list(paths)
    end = time.monotonic() + _PATIENCE_SECONDS
    while left:
        for path in list(left):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if seen.get(path) != (status.st_ino, status.st_mtime_ns):
                seen[path] = (status.st_ino, status.st_mtime_ns)
                if path.read_bytes() == content:
                    left.remove(path)
        if time.monotonic() > end:
            raise RuntimeError(f"not within {_PATIENCE_SECONDS} s: {left[0]}")
        time.sleep(_POLL_SECONDS)


def _security_changes(bench: Bench, cluster: RealCluster, rounds: int) -> list[float]:
    """Milliseconds of ``PUT /security/config``, which is answered when every worker has acknowledged it."""
    taken = []
    for number in range(rounds + 1):
        headers = token(cluster, cluster.master)  # each change revokes all tokens
        body = f'{{"auth_token_exp_timeout": {900 + number}}}'.encode()
        message = request("PUT", "/security/config", headers, body)
        with Client(cluster.master.api_port) as client:
            start = time.perf_counter()
            answer = client.ask(message)
            taken.append((time.perf_counter() - start) * 1000)
        bench.unconfirmed("security change", answer)
    return taken[1:]
