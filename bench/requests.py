"""Requests a second and the time of each, on one API worker, against a bare application with the same bytes."""

import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import psutil

from bench import bench_api
from bench.bare import bare_server
from bench.harness import Aim, Answer, Client, Figure, load, median_figure, quantile, request
from bench.nodes import Bench, login, processes, say, token
from secmon.security.passwords import hash_password, verify_password

CONNECTIONS = 16
_AIM = Aim(bound=0.5, least=True)


class Target(NamedTuple):
    """A request to a node, and its place among the bare server's answers."""

    name: str
    port: int
    message: bytes
    answer: Answer
    aim: Aim | None = None


def measure(bench: Bench) -> list[Figure]:
    """``GET /`` alone by bench_api, then four requests to nodes of a cluster, the servers in turn."""
    rounds, seconds = (2, 0.5) if bench.quick else (7, 1.0)
    say("GET / of the adapter alone")
    alone = bench_api.measure(rounds, seconds, CONNECTIONS)
    figures = [
        Figure(
            name="GET /, adapter alone", value=alone["secmon_rate"], unit="req/s", samples=rounds,
            floor=alone["starlette_rate"], floor_is="bare", aim=_AIM,
        ),
        Figure(
            name="GET /, processor time", value=alone["secmon_cost_us"], unit="us/req", samples=rounds,
            floor=alone["starlette_cost_us"], floor_is="bare", aim=Aim(bound=2.0),
        ),
    ]  # fmt: skip
    figures.append(_processor_time(bench, rounds, seconds))
    targets = _targets(bench)
    with bare_server([target.answer for target in targets]) as port:
        for number, target in enumerate(targets):
            say(f"{target.name}, against a bare application")
            figures += compared(target, port, f"/{number}", rounds, seconds)
    return [*figures, *_login(bench, rounds, seconds)]


def _targets(bench: Bench) -> list[Target]:
    cluster = bench.cluster(2)
    master, worker = cluster.master, cluster.workers[0]
    wanted = [
        ("GET / on a node", master, "/", _AIM),
        ("GET /cluster/nodes on the master", master, "/cluster/nodes", None),
        ("GET /cluster/nodes on a worker", worker, "/cluster/nodes", None),
    ]
    targets = []
    for name, node, path, aim in wanted:
        message = request("GET", path, token(cluster, node))
        with Client(node.api_port) as client:
            targets.append(Target(name, node.api_port, message, client.ask(message), aim))
    return targets


def compared(target: Target, bare: int, path: str, rounds: int, seconds: float) -> list[Figure]:
    """Rates and latencies; node and bare server take turns, the first turn of each warms up."""
    plain = request("GET", path, {"Authorization": "none"})
    rates: dict[str, list[float]] = {"node": [], "bare": []}
    taken: dict[str, list[float]] = {"node": [], "bare": []}
    for number in range(rounds + 1):
        for kind, port, message in (("node", target.port, target.message), ("bare", bare, plain)):
            found = load(port, message, connections=CONNECTIONS, seconds=seconds)
            if number:
                rates[kind].append(found.rate)
                taken[kind] += found.taken
    floor = statistics.median(rates["bare"])
    figures = [median_figure(target.name, rates["node"], "req/s", floor=floor, floor_is="bare", aim=target.aim)]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures.append(
            Figure(
                name=f"  {name}, {CONNECTIONS} connections", value=quantile(taken["node"], share), unit="ms",
                samples=len(taken["node"]), floor=quantile(taken["bare"], share), floor_is="bare",
            )
        )  # fmt: skip
    return figures


def _processor_time(bench: Bench, rounds: int, seconds: float) -> Figure:
    """What a request that a worker passes to the master takes of the processors, in all processes of both nodes."""
    say("processor time of GET /cluster/nodes on a worker")
    cluster = bench.cluster(2)
    worker = cluster.workers[0]
    message = request("GET", "/cluster/nodes", token(cluster, worker))
    everything = [process for node in cluster.nodes for process in processes(node)]
    taken: list[float] = []
    for number in range(rounds + 1):
        time.sleep(seconds)
        before = processor_seconds(everything)
        time.sleep(seconds)
        idle = processor_seconds(everything) - before
        before, start = processor_seconds(everything), time.perf_counter()
        requests = len(load(worker.api_port, message, connections=CONNECTIONS, seconds=seconds).taken)
        used = processor_seconds(everything) - before - idle * (time.perf_counter() - start) / seconds
        if number:  # the first warms up
            taken.append(used / requests * 1e6)
    return median_figure("GET /cluster/nodes on a worker, processor time of the cluster", taken, "us/req")


def processor_seconds(everything: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in everything)


def _login(bench: Bench, rounds: int, seconds: float) -> list[Figure]:
    """Logins are one password hash each: the floor is hashing in as many threads as there are cores."""
    say("logins, against password hashes")
    cluster = bench.cluster(2)
    message = login(cluster)
    rates: list[float] = []
    floors: list[float] = []
    taken: list[float] = []
    for _ in range(rounds):
        floors.append(_hashes(seconds))
        found = load(cluster.master.api_port, message, connections=CONNECTIONS, seconds=seconds)
        rates.append(found.rate)
        taken += found.taken
    floor = statistics.median(floors)
    figures = [median_figure("login", rates, "req/s", floor=floor, floor_is="hashes alone")]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures.append(
            Figure(
                name=f"  {name}, {CONNECTIONS} connections", value=quantile(taken, share), unit="ms",
                samples=len(taken), floor=CONNECTIONS / floor * 1000, floor_is="queue of hashes",
            )
        )  # fmt: skip
    return figures


def _hashes(seconds: float) -> float:
    """Password checks a second on all cores."""
    stored, cores = hash_password("Bench-Mark-1"), os.cpu_count() or 1
    end = time.perf_counter() + seconds

    def work() -> int:
        count = 0
        while time.perf_counter() < end:
            verify_password(stored, "Bench-Mark-1")
            count += 1
        return count

    with ThreadPoolExecutor(cores) as pool:
        counts = [pool.submit(work) for _ in range(cores)]
        return sum(count.result() for count in counts) / seconds
