"""Clients that change a cluster while it suffers, and what must be true of it afterwards."""

import random
import secrets
import threading
from collections import Counter
from dataclasses import dataclass, field

import httpx

from tests.integration.ha_kit import HaCluster
from tests.integration.kit import RealNode


@dataclass
class History:
    """Agents and users that clients asked for, by name. ``acknowledged``: with the id that was answered."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    codes: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Answers of errors, by status and text."""


class Clients:
    """Threads that create agents and users through random nodes, until :meth:`stop`."""

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
        while not self._stopped.is_set():
            node = choice.choice(self._cluster.nodes)
            made += 1
            try:
                self._one(node, f"{self._prefix}-{number}-{made}", tokens)
            except (httpx.HTTPError, AssertionError):  # a node that is away
                tokens.pop(node.name, None)
                self._stopped.wait(0.05)

    def _one(self, node: RealNode, name: str, tokens: dict[str, str]) -> None:
        token = tokens.get(node.name) or self._cluster.login(node)
        tokens[node.name] = token
        with self._lock:
            self.history.tried.add(name)
        if name.endswith(("3", "7")):
            user = {"username": name, "password": "Long-Enough-1"}
            answer = node.request("POST", "/security/users", token=token, json=user, timeout=15)
        else:
            answer = node.request("POST", "/agents", token=token, json={"name": name}, timeout=15)
        body = answer.json()
        with self._lock:
            self.history.codes[answer.status_code] += 1
            if answer.status_code != 200:
                self.history.failures[f"{answer.status_code} {body.get('error')} {body.get('detail')}"] += 1
            if answer.status_code == 200 and body["error"] == 0:
                self.history.acknowledged[name] = body["data"].get("id", "")
        if answer.status_code != 200:
            tokens.pop(node.name, None)
            self._stopped.wait(0.05)


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
    assert len(set(agents.values())) == len(agents)
    asked = {name for name in agents if name.partition("-")[0] in {one.partition("-")[0] for one in history.tried}}
    assert asked - history.tried == set()
