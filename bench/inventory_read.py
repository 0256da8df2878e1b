"""What agents have installed, asked over HTTP: of one agent, and of 1,000 agents on three nodes at once."""

import random
import sqlite3
import statistics
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert, select

from bench.agents_read import KEEPALIVE
from bench.harness import Client, Figure, quantile, request
from bench.nodes import Bench, say, token
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.inventory.schema import packages
from secmon.inventory.store import InventoryStore
from tests.integration.kit import RealCluster, RealNode

AGENTS, PACKAGES = 1000, 500
QUESTIONS = (
    ("GET /syscollector/{id}/packages, 500 rows", "/syscollector/007/packages"),
    ("  of an agent of a worker", "/syscollector/008/packages"),
    (
        "GET /experimental/syscollector/packages?sort=name&limit=500",
        "/experimental/syscollector/packages?sort=name&limit=500",
    ),
    ("  one package by name", "/experimental/syscollector/packages?name=package-0042&limit=500"),
)


def measure(bench: Bench) -> list[Figure]:
    """Median and 99th percentile of each question to the master, one at a time, with the floor of SQL on one node."""
    agent_count, rounds = (60, 5) if bench.quick else (AGENTS, 60)
    cluster = bench.cluster(2)
    say(f"putting {agent_count} agents of {PACKAGES} packages into the stores of three nodes")
    fill(cluster, agent_count)
    allow_experimental(cluster)
    headers = token(cluster, cluster.master)
    floor = timed_sql(cluster.master, rounds)
    figures: list[Figure] = []
    for name, path in QUESTIONS:
        say(f"{name.strip()}, {rounds} times")
        with Client(cluster.master.api_port) as client:
            message = request("GET", path, headers)
            answer = client.ask(message)
            if answer.status != 200:
                raise RuntimeError(f"{path}: status {answer.status}")
            taken = [client.timed(message) for _ in range(rounds)]
        figures += _figures(name, taken, floor if name == QUESTIONS[0][0] else None)
    bench.stop()  # no other figure uses these agents
    return figures


def _figures(name: str, taken: list[float], floor: list[float] | None) -> Iterator[Figure]:
    for label, pick in (("median", statistics.median), ("p99", lambda found: quantile(found, 0.99))):
        yield Figure(
            name=f"{name}, {label}",
            value=pick(taken),
            unit="ms",
            samples=len(taken),
            floor=pick(floor) if floor else None,
            floor_is="bare SQL" if floor else "",
        )


def fill(cluster: RealCluster, count: int) -> None:
    """Agents in turn on the nodes, each with the packages of one of ten systems."""
    names = [node.name for node in cluster.nodes]
    store = AgentStore(cluster.master.paths.agents_db, durable=False)
    with store.write() as connection:
        connection.execute(
            insert(agents), [_agent(number, names[(number - 1) % len(names)]) for number in range(1, count + 1)]
        )
    store.close()
    for position, node in enumerate(cluster.nodes):
        inventory = InventoryStore(node.paths.inventory_db)
        for number in range(position + 1, count + 1, len(names)):
            with inventory.write() as connection:
                connection.execute(insert(packages), _packages(number))
        inventory.close()


def _agent(number: int, node: str) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"host-{number:06}.example",
        "register_ip": "any",
        "internal_key": f"{number:064x}",
        "date_add": KEEPALIVE,
        "group": "default",
        "revision": number,
        "version": "Wazuh v4.8.2",
        "os_name": "Ubuntu",
        "node_name": node,
        "last_keepalive": KEEPALIVE,
        "connection_status": "disconnected",
        "group_config_status": "synced",
    }


def _packages(agent: int) -> list[dict[str, Any]]:
    chance = random.Random(agent % 10)
    return [
        {
            "agent_id": agent,
            "item_id": f"{chance.getrandbits(160):040x}",
            "scan_id": 0,
            "name": f"package-{number:04}",
            "version": f"{chance.randrange(1, 9)}.{chance.randrange(40)}-1",
            "architecture": "amd64",
            "format": "deb",
            "vendor": "Example Maintainers <pkg@example.org>",
            "description": "A package that does what its description says",
            "section": "utils",
            "priority": "optional",
            "location": " ",
            "size": chance.randrange(1 << 20),
            "scan_time": "2026/11/22 10:00:00",
            "checksum": f"{chance.getrandbits(160):040x}",
        }
        for number in range(PACKAGES)
    ]


def allow_experimental(cluster: RealCluster) -> None:
    """Switch the experimental operations on at every node, by its configuration and a restart."""
    for node in cluster.nodes:
        config = node.paths.api_config
        config.write_text(config.read_text() + "\nexperimental_features: yes\n")
        node.stop()
        node.start()
    cluster.wait_whole(120)


def timed_sql(node: RealNode, rounds: int) -> list[float]:
    """Milliseconds of reading the rows of an agent with the driver alone."""
    statement = str(select(packages).where(packages.c.agent_id == 7).compile(compile_kwargs={"literal_binds": True}))
    bare = sqlite3.connect(node.paths.inventory_db)
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        rows = bare.execute(statement).fetchall()
        taken.append(1000 * (time.perf_counter() - began))
        assert len(rows) == PACKAGES
    bare.close()
    return taken
