"""The analysis on real nodes: a round trip of logtest, and an upload until its rule is in force everywhere."""

import statistics
import time

import msgspec

from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

WORKERS = 2
FIRST_FREE = 190_000
"""The first id of the rules that are uploaded."""
LOG = "Nov 14 22:13:20 web1 sshd[811]: Failed password for root from 192.0.2.7 port 5022 ssh2"


def measure(bench: Bench) -> list[Figure]:
    """A round trip of logtest, and the time from an uploaded file to the rule in force on every node."""
    cluster = bench.cluster(WORKERS)
    headers = token(cluster, cluster.master)
    say("round trips of logtest, replacements of the ruleset on three nodes")
    event = {"event": LOG, "log_format": "syslog", "location": "/var/log/auth.log"}
    with Client(cluster.master.api_port) as client:
        first = client.ask(request("PUT", "/logtest", headers, msgspec.json.encode(event)))
        session = msgspec.json.decode(first.body)["data"]["token"]
        again = request("PUT", "/logtest", headers, msgspec.json.encode(event | {"token": session}))
        trips = [client.timed(again) for _ in range(20 if bench.quick else 300)]
        small = [client.timed(request("GET", "/", headers)) for _ in range(len(trips))]
        swaps = [_swap(cluster, client, headers, number) for number in range(3 if bench.quick else 15)]
    return [
        median_figure("logtest, round trip", trips, "ms", floor=statistics.median(small), floor_is="GET /"),
        median_figure("rule uploaded until in force on 3 nodes", swaps, "s", aim=Aim(bound=1.0, of="value")),
    ]


def _swap(cluster: RealCluster, client: Client, headers: dict[str, str], number: int) -> float:
    """Seconds from the request of the upload until every node has swapped."""
    rule = (
        f'<rule id="{FIRST_FREE + number}" level="3"><match>bench {number}</match><description>x</description></rule>'
    )
    return put_rules(cluster, client, headers, "bench_rules.xml", rule)


def put_rules(cluster: RealCluster, client: Client, headers: dict[str, str], file: str, rules: str) -> float:
    """Upload a file of rules; seconds until they are in force on every node."""
    before = {node.name: _in_force(node) for node in cluster.nodes}
    body = f'<group name="bench,">{rules}</group>'.encode()
    kind = {**headers, "Content-Type": "application/octet-stream"}
    started = time.perf_counter()
    client.timed(request("PUT", f"/rules/files/{file}?overwrite=true", kind, body))
    wait_until(
        lambda: all(_in_force(node) != before[node.name] for node in cluster.nodes),
        seconds=60,
        what="the swap on all nodes",
    )
    return time.perf_counter() - started


def _in_force(node: RealNode) -> object:
    return msgspec.json.decode((node.paths.run / "ruleset-status.json").read_bytes())["digest"]
