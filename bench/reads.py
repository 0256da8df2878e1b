"""Lists over HTTP that clients ask for again and again, on one API worker, against a bare application."""

import time
from pathlib import Path

from bench import agents_read, generated_ruleset
from bench.bare import bare_server
from bench.harness import Aim, Client, Figure, request
from bench.nodes import Bench, processes, say, token
from bench.requests import Target, compared, processor_seconds
from secmon.agents.registry.store import AgentStore
from tests.integration.kit import RealNode
from tests.waiting import wait_until

AIMS = {"GET /manager/status": 5000.0, "GET /agents, one agent": 1500.0, "GET /rules?limit=500": 800.0}
"""Requests a second."""
WINDOW_SECONDS = 2.0
IDLE_SHARE = 0.1
"""Of one core, for all processes of a node."""


def measure(bench: Bench) -> list[Figure]:
    """Each figure with its floor: a bare server that gives the same bytes."""
    rounds, seconds = (2, 0.5) if bench.quick else (7, 1.0)
    cluster = bench.cluster(0)
    node = cluster.master
    store = AgentStore(node.paths.agents_db)
    agents_read.fill(store, 1)
    store.close()
    rules = _put_rules(node.paths.etc / "rules")
    say(f"waiting until the analysis has read {rules} more rules")
    wait_until(lambda: _idle(node), seconds=120, what="the node is idle")
    headers = token(cluster, node)
    figures: list[Figure] = []
    for name, aim in AIMS.items():
        path = name.partition(" ")[2].partition(",")[0]
        message = request("GET", path, headers)
        with Client(node.api_port) as client:
            answer = client.ask(message)
        say(f"{name}, {len(answer.body)} bytes, against a bare application")
        target = Target(name, node.api_port, message, answer, Aim(bound=aim, of="value", least=True))
        with bare_server([answer]) as port:
            figures += compared(target, port, "/0", rounds, seconds)
    bench.stop()  # no other figure uses these rules
    return figures


def _put_rules(folder: Path) -> int:
    """Rules as many as the public ones, in files beside the default rules; how many."""
    ruleset = generated_ruleset.generate()
    for path, data in ruleset.sources().rules:
        if "generated" in path:
            (folder / Path(path).name).write_bytes(data)
    return len(ruleset.rules)


def _idle(node: RealNode) -> bool:
    """Whether the analysis has done with the new files."""
    running = processes(node)
    before = processor_seconds(running)
    time.sleep(WINDOW_SECONDS)
    return processor_seconds(running) - before < IDLE_SHARE * WINDOW_SECONDS
