"""A call to several nodes against the slowest of them alone: parts run side by side, not in a row."""

import os
import signal
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Timer

from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from tests.integration.kit import RealNode

WIDTHS = (2, 5, 10, 20)
SLOW_SECONDS = 0.1
PATHS = {
    "/cluster/configuration/validation": "/manager/configuration/validation",
    "/cluster/api/config": "/manager/api/config",
}
"""Operations on several nodes, and what runs the same function on the node asked."""


def measure(bench: Bench) -> list[Figure]:
    """For each operation and width: one node alone, all nodes called by the client at once, the fan-out."""
    rounds = 5 if bench.quick else 25
    cluster = bench.cluster(max(WIDTHS) - 1)
    headers = token(cluster, cluster.master)
    figures: list[Figure] = []
    with ExitStack() as stack:
        clients = {node.name: stack.enter_context(Client(node.api_port)) for node in cluster.nodes}
        pool = stack.enter_context(ThreadPoolExecutor(max(WIDTHS)))
        for path, own in PATHS.items():
            for width in WIDTHS:
                say(f"{path} on {width} nodes")
                nodes = cluster.nodes[:width]
                figures += _compared(path, own, nodes, clients, headers, pool, rounds)
        path = next(iter(PATHS))
        for width in WIDTHS:
            say(f"{path} on {width} nodes, one of them slow")
            figures.append(_one_slow(path, cluster.nodes[:width], clients, headers, max(3, rounds // 2)))
    return figures


def _compared(
    path: str,
    own: str,
    nodes: Sequence[RealNode],
    clients: dict[str, Client],
    headers: dict[str, str],
    pool: ThreadPoolExecutor,
    rounds: int,
) -> list[Figure]:
    """The three in turn, so that other load affects all of them."""
    everyone = request("GET", f"{path}?nodes_list={','.join(node.name for node in nodes)}", headers)
    alone = request("GET", own, headers)
    single: dict[str, list[float]] = {node.name: [] for node in nodes}
    together: list[float] = []
    fan: list[float] = []
    for number in range(rounds + 2):
        parts = {node.name: clients[node.name].timed(alone) for node in nodes}
        side_by_side = max(pool.map(lambda node: clients[node.name].timed(alone), nodes))
        whole = clients[nodes[0].name].timed(everyone)
        if number >= 2:  # the first ones warm up
            for name, taken in parts.items():
                single[name].append(taken)
            together.append(side_by_side)
            fan.append(whole)
    medians = [statistics.median(taken) for taken in single.values()]
    slowest = max(medians)
    name = f"{path} to {len(nodes)}"
    possible = max(slowest, sum(medians) / (os.cpu_count() or 1))
    return [
        median_figure(name, fan, "ms", floor=slowest, floor_is="slowest node alone", aim=Aim(bound=1.5)),
        median_figure("  against these cores", fan, "ms", floor=possible, floor_is="all parts / cores"),
        median_figure(
            "  against the client asking each", fan, "ms", floor=statistics.median(together), floor_is="asked at once"
        ),
    ]


def _one_slow(
    path: str, nodes: Sequence[RealNode], clients: dict[str, Client], headers: dict[str, str], rounds: int
) -> Figure:
    """The last node stops for a while: the work of the others at that time should cost nothing.

    Unlike the parts themselves, waiting needs no processor, so this holds on a machine with fewer cores than nodes.
    """
    client, slow = clients[nodes[0].name], nodes[-1]
    alone = request("GET", f"{path}?nodes_list={slow.name}", headers)
    everyone = request("GET", f"{path}?nodes_list={','.join(node.name for node in nodes)}", headers)
    own: list[float] = []
    whole: list[float] = []
    for _ in range(rounds):
        for message, taken in ((alone, own), (everyone, whole)):
            with _standing_still(slow):
                taken.append(client.timed(message))
    return median_figure(
        f"{path} to {len(nodes)}, one slow", whole, "ms", floor=statistics.median(own),
        floor_is=f"that node, {SLOW_SECONDS * 1000:.0f} ms late", aim=Aim(bound=1.5),
    )  # fmt: skip


@contextmanager
def _standing_still(node: RealNode) -> Iterator[None]:
    """Stops the node's cluster daemon for a while; returns when it runs again."""
    assert node.process is not None
    pid = node.pid("secmon-clusterd") or node.process.pid
    timer = Timer(SLOW_SECONDS, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        timer.join()
