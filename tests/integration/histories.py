"""Clients that change a cluster while it suffers, and what must be true of it afterwards."""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.integration.ha_kit import HaCluster
from tests.integration.kit import RealNode


@dataclass
class History:
    """Agents, users and groups that clients asked for, by name.

    ``acknowledged``: agents and users with the id that was answered, empty for users.
    """

    acknowledged: dict[str, str] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    """Those that were acknowledged."""
    tried: set[str] = field(default_factory=set)
    codes: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Answers of errors by status and text, and connections that failed."""
    longest: float = 0.0
    """Seconds of the longest request."""


class Clients:
    """Threads that read, and create agents, users and groups, through random nodes, until :meth:`stop`.

    Half of the requests are sent on connections that stay open.
    """

    def __init__(self, cluster: HaCluster, count: int = 3) -> None:
        self.history = History()
        self._cluster = cluster
        self._prefix = f"c{secrets.token_hex(3)}"
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> History:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        return self.history

    def made(self) -> int:
        with self._lock:
            return len(self.history.acknowledged)

    def _run(self, number: int) -> None:
        choice, tokens = random.Random(number), dict[str, str]()
        made = 0
        options: dict[str, Any] = {"verify": False, "timeout": 15}
        with httpx.Client(**options) as kept, httpx.Client(**options, headers={"Connection": "close"}) as new:
            while not self._stopped.is_set():
                node = choice.choice(self._cluster.nodes)
                made += 1
                try:
                    self._one(kept if made % 2 else new, node, f"{self._prefix}-{number}-{made}", tokens)
                except (httpx.HTTPError, AssertionError) as error:  # a node that is away
                    with self._lock:
                        self.history.failures[f"{node.name}: {type(error).__name__}: {error}"] += 1
                    tokens.pop(node.name, None)
                    self._stopped.wait(0.05)

    def _one(self, client: httpx.Client, node: RealNode, name: str, tokens: dict[str, str]) -> None:
        token = tokens.get(node.name) or self._cluster.login(node)
        tokens[node.name] = token
        with self._lock:
            self.history.tried.add(name)
        method, path, body = _request(name)
        begun = time.monotonic()
        answer = client.request(method, node.url + path, headers={"Authorization": f"Bearer {token}"}, json=body)
        with self._lock:
            self.history.longest = max(self.history.longest, time.monotonic() - begun)
            self._note(name, path, answer)
        if answer.status_code != 200:
            tokens.pop(node.name, None)
            self._stopped.wait(0.05)

    def _note(self, name: str, path: str, answer: httpx.Response) -> None:
        history, body = self.history, answer.json()
        history.codes[answer.status_code] += 1
        if answer.status_code != 200 or body["error"] != 0:
            shown = body.get("detail") or body["data"].get("failed_items")
            history.failures[f"{path}: {answer.status_code} {body.get('error')} {shown}"] += 1
        elif path == "/groups":
            history.groups.add(name)
        elif answer.request.method == "POST":
            history.acknowledged[name] = body["data"].get("id", "")


def _request(name: str) -> tuple[str, str, Mapping[str, str] | None]:
    """Method, path and body, by the last digit of ``name``."""
    match int(name[-1]):
        case 3 | 7:
            return "POST", "/security/users", {"username": name, "password": "Long-Enough-1"}
        case 5:
            return "POST", "/groups", {"group_id": name}
        case 1:
            return "GET", "/agents?limit=1", None
        case 9:
            return "GET", "/cluster/local/info", None
    return "POST", "/agents", {"name": name}


def check(history: History, cluster: HaCluster, node: RealNode) -> None:
    """Every change that was answered with success is there, nothing that no client asked for, no id twice."""
    found = cluster.call(node, "/agents?limit=5000&select=id,name")["data"]["affected_items"]
    agents = {item["name"]: item["id"] for item in found if item["id"] != "000"}
    users = cluster.call(node, "/security/users?limit=5000")["data"]["affected_items"]
    names = {item["username"] for item in users}
    lost = [
        name
        for name, number in history.acknowledged.items()
        if (agents.get(name) != number if number else name not in names)
    ]
    assert lost == [], f"lost on {node.name}"
    groups = {item["name"] for item in cluster.call(node, "/groups?limit=5000")["data"]["affected_items"]}
    assert history.groups - groups == set(), f"lost on {node.name}"
    assert len(set(agents.values())) == len(agents)
    asked = {name for name in agents if name.partition("-")[0] in {one.partition("-")[0] for one in history.tried}}
    assert asked - history.tried == set()
