"""The same alerts on one node and on three: questions to all nodes, and events until their alerts are found."""

import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta

import msgspec

from bench.engine_nodes import FIRST_FREE, put_rules
from bench.generated_alerts import alert_lines
from bench.harness import Client, Figure, median_figure, quantile, request
from bench.nodes import Bench, say, token
from secmon.common.clock import SystemClock
from secmon.common.logfile.log_series import alert_series
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

ALERTS, EVENTS = 1_000_000, 30_000
WORKERS = 2
_RULE = FIRST_FREE + 900
_LIMIT_SECONDS = 300.0
_DAY = timedelta(days=1)

Samples = Mapping[str, Sequence[float]]


def measure(bench: Bench) -> list[Figure]:
    """One after the other on this machine, so that three nodes share its cores."""
    one, three = (_measured(bench.cluster(workers), quick=bench.quick) for workers in (0, WORKERS))
    bench.stop()  # its stores are full
    return [*_figures(one, three)]


def _measured(cluster: RealCluster, *, quick: bool) -> Samples:
    """Milliseconds of each question, and events a second."""
    _fill(cluster, 20_000 if quick else ALERTS)
    headers = token(cluster, cluster.master)
    ready = [node.paths.run / "ruleset-status.json" for node in cluster.nodes]
    wait_until(lambda: all(one.exists() for one in ready), what="the analysis of all nodes")
    with Client(cluster.nodes[-1].api_port) as client:
        say(f"questions to {len(cluster.nodes)} node(s)")
        found = {name: _asked(client, headers, path, 5 if quick else 40) for name, path in _questions().items()}
        rule = f'<rule id="{_RULE}" level="3"><match>bench event</match><description>x</description></rule>'
        put_rules(cluster, client, headers, "bench_alerts.xml", rule)
        say("events")
        rates = [_rate(cluster, client, headers, EVENTS // 10 if quick else EVENTS) for _ in range(2 if quick else 4)]
        return {**found, "events": rates[1:]}  # the first round fills the memories


def _fill(cluster: RealCluster, count: int) -> None:
    """Give each node its share of the alerts of the last day, as files from which its store is built."""
    nodes, now = cluster.nodes, SystemClock().now()
    say(f"{count} alerts for {len(nodes)} node(s)")
    with ExitStack() as opened:
        aside = [node.paths.root / "generated.json" for node in nodes]
        files = [opened.enter_context(path.open("wb")) for path in aside]
        for number, line in enumerate(alert_lines(count, start=now - _DAY, rate=count / _DAY.total_seconds())):
            files[number % len(files)].write(line)
    for node, path in zip(nodes, aside, strict=True):
        series = alert_series(node.paths)
        part = series.part((now - _DAY).astimezone().date())
        series.make_folders(part)
        path.rename(part)  # whole: the node compresses the files of past days
        command = [sys.executable, "-m", "secmon.cli", "alerts", "reindex", "--root", str(node.paths.root)]
        subprocess.run(command, check=True, capture_output=True)


def _questions() -> Mapping[str, Callable[[], str]]:
    """By name; each call asks for other values."""
    numbers = random.Random(1)
    return {
        "newest 50 of a rule": lambda: f"/alerts?rule_ids={5000 + numbers.randrange(400)}",
        "newest 50 of all": lambda: f"/alerts?level=1-{numbers.randrange(13, 17)}",
        "newest 50 with words": lambda: (
            f"/alerts?search=%22invalid%20user%20{numbers.choice(('root', 'deploy', 'oracle'))}%22%20ssh2"
        ),
        "top 10 of rule.id": lambda: f"/alerts/top?field=rule.id&limit=10&since=now-{numbers.randrange(25, 99)}h",
        "top 10 of data.srcip": lambda: f"/alerts/top?field=data.srcip&limit=10&since=now-{numbers.randrange(25, 99)}h",
        "histogram by hour": lambda: f"/alerts/histogram?interval=1h&since=now-{numbers.randrange(25, 99)}h",
    }


def _asked(client: Client, headers: dict[str, str], path: Callable[[], str], rounds: int) -> list[float]:
    client.timed(request("GET", path(), headers))
    return [client.timed(request("GET", path(), headers)) for _ in range(rounds)]


def _rate(cluster: RealCluster, client: Client, headers: dict[str, str], count: int) -> float:
    """Events a second, sent in turn to all nodes, until all their alerts are found."""
    before = _found(client, headers)
    started = time.perf_counter()
    with ExitStack() as opened:
        ways = [opened.enter_context(_way(node)) for node in cluster.nodes]
        for number in range(count):
            ways[number % len(ways)].send(b"1:/var/log/bench:bench event %d" % number)
    wait_until(lambda: _found(client, headers) >= before + count, seconds=_LIMIT_SECONDS, what="all alerts are found")
    return count / (time.perf_counter() - started)


def _way(node: RealNode) -> socket.socket:
    """To the socket for events of the node's own host, which waits while it is full."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.connect(os.fspath(node.paths.root / "queue/sockets/queue"))
    return made


def _found(client: Client, headers: dict[str, str]) -> int:
    answer = client.ask(request("GET", f"/alerts?rule_ids={_RULE}&limit=1&since=now-1h", headers))
    return int(msgspec.json.decode(answer.body)["data"]["total_affected_items"])


def _figures(one: Samples, three: Samples) -> Iterator[Figure]:
    nodes = WORKERS + 1
    for name in one:
        if name == "events":
            yield median_figure(
                f"alerts on {nodes} nodes: events analysed and found", three[name], "events/s",
                floor=statistics.median(one[name]), floor_is="1 node",
            )  # fmt: skip
            continue
        for label, share in (("median", 0.5), ("p99", 0.99)):
            yield Figure(
                name=f"alerts on {nodes} nodes: {name}, {label}", value=quantile(three[name], share), unit="ms",
                samples=len(three[name]), floor=quantile(one[name], share), floor_is="1 node",
            )  # fmt: skip
