"""Queries on 100,000 agents over HTTP, compared with the same SQL on the same file."""

import random
import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from sqlalchemy import event, insert, update

from bench.harness import Aim, Client, Figure, median_figure, quantile, request
from bench.nodes import Bench, say, token
from secmon.agents.registry.agent_fields import FIELDS, manager_row, own_system
from secmon.agents.registry.queries import read_page
from secmon.agents.registry.schema import agent_groups, agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.query import Query

AGENTS = 100_000
KEEPALIVE = 1_795_000_000
FIRST = "GET /agents?limit=500"
QUESTIONS: dict[str, dict[str, Any]] = {
    FIRST: {"limit": 500},
    "  three terms of q, sorted": {
        "q": "status=active;os.name=Ubuntu;version=Wazuh v4.8.2",
        "sort": "-lastKeepAlive",
        "limit": 500,
    },
    "  one agent by name": {"q": "name=host-050000.example"},
    "  members of a group": {"q": "group=team07", "limit": 500},
    "  search": {"search": "host-0500", "limit": 500},
}
AIMS = {FIRST: 2.0, "  three terms of q, sorted": 2.0}
"""How many times as long as its SQL a query may take."""

Statement = tuple[str, Any]


def measure(bench: Bench) -> list[Figure]:
    """Median and 99th percentile of each query, one request at a time, in turn with its floor."""
    rounds = 5 if bench.quick else 100
    cluster = bench.cluster(0)
    node = cluster.master
    say(f"putting {AGENTS} agents into the store")
    store = AgentStore(node.paths.agents_db, durable=False)
    fill(store)
    figures: list[Figure] = []
    headers = token(cluster, node)
    bare = sqlite3.connect(node.paths.agents_db)
    for name, parameters in QUESTIONS.items():
        say(f"{name.strip()}, {rounds} times")
        text = "&".join(f"{key}={quote(str(value))}" for key, value in parameters.items())
        message = request("GET", f"/agents?{text}", headers)
        statements = statements_of(store, parameters)
        with Client(node.api_port) as client:
            taken, floors = _in_turn(store, client, message, bare, statements, rounds)
            figures += compared(name, taken, floors)
            if name == FIRST:
                again = [client.timed(message) for _ in range(rounds)]
                figures.append(
                    median_figure(
                        "  nothing has changed, median",
                        again,
                        "ms",
                        floor=statistics.median(floors),
                        floor_is="bare SQL",
                    )
                )
    bare.close()
    store.close()
    bench.stop()  # no other figure uses these agents
    return figures


def _in_turn(
    store: AgentStore,
    client: Client,
    message: bytes,
    bare: sqlite3.Connection,
    statements: Sequence[Statement],
    rounds: int,
) -> tuple[list[float], list[float]]:
    """Milliseconds of a request and of its SQL. A row changes before each request: else its answer is remembered."""
    taken: list[float] = []
    floors: list[float] = []
    for number in range(rounds + 1):
        with store.write() as connection:
            connection.execute(update(agents).where(agents.c.id == AGENTS).values(status_code=number % 5))
        answered, queried = client.timed(message), timed(bare, statements)
        if number:  # the first warms up
            taken.append(answered)
            floors.append(queried)
    return taken, floors


def compared(name: str, taken: Sequence[float], floors: Sequence[float]) -> Iterator[Figure]:
    aim = Aim(bound=AIMS[name]) if name in AIMS else None
    for label, value, floor, wanted in (
        (f"{name}, median", statistics.median(taken), statistics.median(floors), aim),
        (f"{name}, p99", quantile(taken, 0.99), quantile(floors, 0.99), None),
    ):
        yield Figure(
            name=label, value=value, unit="ms", samples=len(taken), floor=floor, floor_is="bare SQL", aim=wanted
        )


def fill(store: AgentStore, count: int = AGENTS) -> None:
    """The same agents in every run: nine in ten connected, three systems, two versions, a hundred groups."""
    chance = random.Random(1)
    rows = [_agent(number, chance) for number in range(1, count + 1)]
    members = [
        {"agent_id": row["id"], "priority": priority, "name": name}
        for row in rows
        for priority, name in enumerate(str(row["group"]).split(","))
    ]
    with store.write() as connection:
        connection.execute(insert(agents), rows)
        connection.execute(insert(agent_groups), members)


def _agent(number: int, chance: random.Random) -> dict[str, Any]:
    system, platform = chance.choice((("Ubuntu", "ubuntu"), ("CentOS Linux", "centos"), ("Windows 11", "windows")))
    team = chance.randrange(400)
    return {
        "id": number,
        "name": f"host-{number:06}.example",
        "register_ip": "any",
        "internal_key": f"{chance.getrandbits(256):064x}",
        "date_add": KEEPALIVE - AGENTS + number,
        "group": f"default,team{team:02}" if team < 100 else "default",
        "revision": number,
        "ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        "os_name": system,
        "os_version": "22.04.3 LTS",
        "os_major": "22",
        "os_minor": "04",
        "os_codename": "Jammy Jellyfish",
        "os_platform": platform,
        "os_uname": "Linux |host |5.15.0-86-generic |#96-Ubuntu SMP Wed Sep 20 08:23:49 UTC |x86_64",
        "os_arch": "x86_64",
        "version": chance.choice(("Wazuh v4.8.2", "Wazuh v4.7.0")),
        "config_sum": f"{chance.getrandbits(128):032x}",
        "merged_sum": f"{chance.getrandbits(128):032x}",
        "manager_host": "manager",
        "node_name": "master-node",
        "last_keepalive": KEEPALIVE + chance.randrange(600),
        "connection_status": chance.choices(("active", "disconnected", "never_connected"), (90, 7, 3))[0],
        "group_config_status": "synced",
    }


def statements_of(store: AgentStore, parameters: dict[str, Any]) -> list[Statement]:
    """The SQL of a query."""
    asked: list[Statement] = []
    manager = manager_row("master-node", host="manager", system=own_system(), created=None)
    with store.read() as connection:

        @event.listens_for(connection, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, values: Any, _context: Any, _many: bool) -> None:
            asked.append((statement, values))

        now = SystemClock().now()
        read_page(connection, Query.parse(fields=FIELDS, **parameters), now=now, manager=manager)
    return asked


def timed(bare: sqlite3.Connection, statements: Sequence[Statement]) -> float:
    """Milliseconds until all rows are there."""
    start = time.perf_counter()
    for statement, values in statements:
        bare.execute(statement, values).fetchall()
    return (time.perf_counter() - start) * 1000
