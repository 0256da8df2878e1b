#!/usr/bin/env python3
"""Drill of compose.ha.yaml: kills, pauses and disconnects the master and the primary of the database, checks promises.

    deploy/ha_drill.py [--no-build] [--port N] [--keep]

Works with "docker compose" or podman-compose, in a separate project (secmon-ha-drill) that is removed at the end. Takes
about ten minutes. What is promised: docs/high-availability.md.

Exit status: 0 every step passed, 1 a step failed, 2 neither docker nor podman is installed.
"""

import json
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

from drill_kit import LATE_SECONDS, Api, Containers, Project, Steps, check, run, until

NODES = ("node1", "node2", "node3")
DATABASES = ("db1", "db2")
PASSWORD = f"Drill-{secrets.token_hex(8)}-Aa1"
PROJECT = Project(
    "secmon-ha-drill",
    "compose.ha.yaml",
    ("localhost/secmon:latest", "localhost/secmon-balancer:latest", "localhost/secmon-database:latest"),
    {
        "cluster_key": secrets.token_hex(16),
        "admin_password": PASSWORD,
        "store_password": secrets.token_hex(16),
        "database_password": secrets.token_hex(16),
    },
)
MASTER_SECONDS = 15.0
"""Promised: a new master serves so long after the loss of the old one's host."""
PRIMARY_SECONDS = 60.0
"""For a new primary: Patroni gives a lost one up after the ttl in deploy/patroni.yml."""


class Drill:
    """The steps in their order; after each the cluster is complete, and has all users that it has confirmed."""

    def __init__(self, steps: Steps, containers: Containers, api: Api) -> None:
        self._steps, self._containers, self._api = steps, containers, api
        self._made: set[str] = set()

    def all(self) -> None:
        if not self._steps.step("every node becomes healthy and joins; the database has a standby", self._start):
            return  # nothing runs
        for name, lose, restore in (
            ("killed", "kill", "start"),
            ("paused", "pause", "unpause"),
            ("cut off", "disconnect", "connect"),
        ):
            self._steps.step(
                f"master {name}: another takes over; back again it follows", self._lost_master(lose, restore)
            )
        self._steps.step("the role is given to another node on purpose", self._switch_over)
        for name, lose, restore in (
            ("killed", "kill", "start"),
            ("paused", "pause", "unpause"),
            ("cut off", "disconnect", "connect"),
        ):
            self._steps.step(
                f"primary {name}: nodes read and log in; the standby takes over", self._lost_primary(lose, restore)
            )
        self._steps.step("new containers on the old volumes are the same cluster", self._recreate)

    def _start(self) -> str:
        self._containers.compose("up", "-d", "--no-build")
        self._whole()
        return f"master {self._master()}, primary {self._primary()}"

    def _lost_master(self, lose: str, restore: str) -> Callable[[], str]:
        def step() -> str:
            master = self._master()
            self._change(lose, master)
            lost = time.monotonic()
            try:
                until(self._make_user, "a change without the old master")
                took = time.monotonic() - lost
                check(took < MASTER_SECONDS, f"the next change was made after {took:.1f} s")
                check(self._master() != master, f"{master} is still shown as the master")
            finally:
                self._change(restore, master)
            self._whole()
            return f"{master} lost, next change after {took:.1f} s, {self._master()} is the master"

        return step

    def _switch_over(self) -> str:
        before = self._master()
        said = self._containers.do("exec", self._containers.id("node1"), "secmon", "cluster", "switchover")
        started = time.monotonic()
        until(self._make_user, "a change after it")
        check(self._master() != before, said)
        self._whole()
        return f"next change {time.monotonic() - started:.1f} s after the answer"

    def _lost_primary(self, lose: str, restore: str) -> Callable[[], str]:
        def step() -> str:
            primary = self._primary()
            self._change(lose, primary)
            lost = time.monotonic()
            try:
                # Both must go on all the time: 12 requests reach every node.
                check(self._api.answering() == (set(NODES), {200}), "a node does not answer while the database is away")
                check(self._api.log_in("admin", PASSWORD) == 200, "no login while the database is away")
                until(self._make_user, "a change on the new primary", LATE_SECONDS)
                took = time.monotonic() - lost
                check(took < PRIMARY_SECONDS, f"the next change was made after {took:.1f} s")
            finally:
                self._change(restore, primary)
            self._whole()
            return f"{primary} lost, next change after {took:.1f} s, {self._primary()} is the primary"

        return step

    def _recreate(self) -> None:
        before = self._containers.id("node1")
        self._containers.compose("down")
        self._containers.compose("up", "-d", "--no-build")
        check(self._containers.id("node1") not in ("", before), "no new container")
        self._whole()

    def _change(self, action: str, service: str) -> None:
        if action in ("connect", "disconnect"):
            self._containers.network(action, service)
        else:
            self._containers.do(action, self._containers.id(service))

    def _make_user(self) -> bool:
        """Try to make a user; whether it was confirmed. One that was stays in the list of those that must exist."""
        name = f"drill-{secrets.token_hex(6)}"
        status, answer = self._api.ask("POST", "/security/users", body={"username": name, "password": PASSWORD})
        made = status == 200 and answer["error"] == 0
        if made:
            self._made.add(name)
        elif status == 401:
            self._api.log_in("admin", PASSWORD)
        return made

    def _users(self) -> set[str]:
        answer = self._api.get("/security/users?limit=5000")[1]
        return {item["username"] for item in answer.get("data", {}).get("affected_items", [])}

    def _master(self) -> str:
        """As the nodes show it; empty without an answer."""
        answer = self._api.get("/cluster/status")[1]
        return str(answer.get("data", {}).get("mastership", {}).get("holder", ""))

    def _primary(self) -> str:
        """The host of the database that Patroni shows as the leader."""
        return next((one["name"] for one in self._members() if one["role"] in ("leader", "master")), "")

    def _members(self) -> list[dict[str, Any]]:
        """Hosts of the database, as the first one shows them that answers."""
        show = "import urllib.request as u; print(u.urlopen('http://%s:8008/cluster', timeout=5).read().decode())"
        for name in DATABASES:
            try:
                said = self._containers.do("exec", self._containers.id(name), "python3", "-c", show % name)
                members: list[dict[str, Any]] = json.loads(said)["members"]
            except (AssertionError, ValueError):
                continue
            return members
        return []

    def _protected(self) -> bool:
        """Whether a standby confirms each commit."""
        return {one["role"].replace("master", "leader") for one in self._members()} == {"leader", "sync_standby"}

    def _whole(self) -> None:
        """Wait until all nodes are healthy, listed and reached through the balancer, and nothing confirmed is lost."""
        for service in NODES:
            until(lambda service=service: self._containers.healthy(service), f"{service} is healthy", 2 * LATE_SECONDS)
        until(lambda: self._api.log_in("admin", PASSWORD) == 200, "the administrator can log in")
        until(lambda: self._api.nodes() == set(NODES), "all nodes are listed")
        until(lambda: self._api.answering() == (set(NODES), {200}), "all nodes are behind the balancer")
        until(self._protected, "the database has a synchronous standby")
        check(self._made <= self._users(), f"confirmed and lost: {sorted(self._made - self._users())}")


def drill(steps: Steps, containers: Containers, api: Api) -> None:
    Drill(steps, containers, api).all()


if __name__ == "__main__":
    sys.exit(run(PROJECT, drill, __doc__))
