#!/usr/bin/env python3
"""Drill of the containers: starts a cluster, pauses, stops, disconnects and kills nodes, checks what clients get.

    deploy/drill.py [--no-build] [--port N] [--keep]

Works with "docker compose" or podman-compose, in a separate project (secmon-drill) that is removed at the end. Takes
about two minutes.

Exit status: 0 every step passed, 1 a step failed, 2 neither docker nor podman is installed.
"""

import secrets
import sys
import time
from typing import Any

from drill_kit import LATE_SECONDS, Api, Containers, Project, Steps, check, run, until

NODES = ("master", "worker1", "worker2")
PASSWORD = f"Drill-{secrets.token_hex(8)}-Aa1"
PROJECT = Project(
    "secmon-drill",
    "compose.yaml",
    ("localhost/secmon:latest", "localhost/secmon-balancer:latest"),
    {"cluster_key": secrets.token_hex(16), "admin_password": PASSWORD},
)
LEASE_SECONDS = 30
"""Internal option clusterd.security_lease, by default."""


class Drill:
    """The steps in their order; after each the cluster is complete."""

    def __init__(self, steps: Steps, containers: Containers, api: Api) -> None:
        self._steps, self._containers, self._api = steps, containers, api

    def all(self) -> None:
        if not self._steps.step("every node becomes healthy and joins", self._start):
            return  # nothing runs
        self._steps.step("the balancer spreads requests over all nodes", self._spread)
        self._steps.step("a request to all nodes is answered by all", self._fan_out)
        self._steps.step("daemons run as the service user, without capabilities", self._privileges)
        self._steps.step("logs of the containers show the daemons and no secret", self._logs)
        self._steps.step("worker2 paused: answers lack its share; unpaused: it is back", self._pause)
        self._steps.step("worker2 stopped within its grace; started: it is back", self._stop)
        self._steps.step("worker1 cut off: it stops serving; connected: it has what it missed", self._cut_off)
        self._steps.step(
            "master killed: workers serve within the lease, say so after it; started: all is well", self._kill
        )
        self._steps.step("daemons killed: their supervisor starts them again", self._kill_daemons)
        self._steps.step("new containers on the old volumes are the same nodes", self._recreate)
        self._steps.step("every container ends cleanly", self._end)

    def _start(self) -> None:
        self._containers.compose("up", "-d", "--no-build")
        self._whole()

    def _spread(self) -> str:
        names, statuses = self._api.answering()
        check(names == set(NODES) and statuses == {200}, f"answered: {names}, statuses: {statuses}")
        return ", ".join(sorted(names))

    def _fan_out(self) -> None:
        status, answer = self._api.get("/cluster/configuration/validation")
        found = {item["name"]: item["status"] for item in answer["data"]["affected_items"]}
        check(status == 200 and found == dict.fromkeys(NODES, "OK"), f"{status} {answer}")

    def _privileges(self) -> None:
        script = f"{EACH_DAEMON} grep -E '^(Uid|CapEff)' $p/status; done"
        lines = self._containers.do("exec", self._containers.id("worker1"), "sh", "-c", script).split("\n")
        found = {tuple(line.split()) for line in lines if line}
        wanted = {("Uid:", *["1516"] * 4), ("CapEff:", "0" * 16)}
        check(found == wanted, str(found))

    def _logs(self) -> None:
        for service in NODES:
            log = self._containers.log(service)
            check("secmon-apid is running" in log and "secmon-clusterd is running" in log, f"{service}: {log[-500:]}")
            check(PASSWORD not in log and "dashboard " not in log, f"{service} shows a password")

    def _pause(self) -> str:
        self._containers.do("pause", self._containers.id("worker2"))
        try:
            for _ in NODES:  # the balancer may send one to the paused node before it notices
                started = time.monotonic()
                status, answer = self._api.get("/cluster/configuration/validation")
                took = time.monotonic() - started
                if status:
                    break
            check(status == 200 and missing(answer) == {"worker2"}, f"{status} {answer}")
            self._only("master", "worker1")
        finally:
            self._containers.do("unpause", self._containers.id("worker2"))
        self._whole()
        return f"the request to all took {took:.1f} s with one node paused"

    def _stop(self) -> str:
        started = time.monotonic()
        self._containers.do("stop", self._containers.id("worker2"))
        took = time.monotonic() - started
        self._ended("worker2")
        self._only("master", "worker1")
        self._containers.do("start", self._containers.id("worker2"))
        self._whole()
        return f"stopped in {took:.1f} s"

    def _cut_off(self) -> str:
        password = f"Drill-{secrets.token_hex(8)}-Aa1"
        self._containers.network("disconnect", "worker1")
        try:
            self._only("master", "worker2")
            user = {"username": "drill", "password": password}
            status, answer = self._api.ask("POST", "/security/users", body=user)
            check(status == 200 and answer["error"] == 0, f"user not made: {status} {answer}")
            started = time.monotonic()
            until(lambda: not self._containers.healthy("worker1"), "worker1 is unhealthy", LEASE_SECONDS + LATE_SECONDS)
            took = time.monotonic() - started
        finally:
            self._containers.network("connect", "worker1")
        self._whole()
        # On worker1 itself: the user was created while it was disconnected.
        known = ["python", "-c", LOG_IN, f"drill:{password}"]
        said = self._containers.do("exec", self._containers.id("worker1"), *known)
        check(said.strip() == "200", f"worker1 does not know the new user: {said}")
        return f"unhealthy {took:.0f} s after the change"

    def _kill(self) -> str:
        self._containers.do("kill", self._containers.id("master"))
        killed = time.monotonic()
        try:
            until(lambda: self._api.answering() == ({"worker1", "worker2"}, {200}), "only workers answer")
            served = time.monotonic() - killed
            check(served < LEASE_SECONDS, "the workers were found too late")
            status, answer = self._api.get("/cluster/nodes")
            check(status >= 500 and bool(answer), f"without a master: {status} {answer}")
            without = f"{status} ({answer.get('error')})"
            until(lambda: self._api.get("/cluster/local/info")[1].get("error") == 3043, "the lease has run out")
        finally:
            if (
                self._containers.do("inspect", "-f", "{{.State.Running}}", self._containers.id("master")).strip()
                != "true"
            ):
                self._containers.do("start", self._containers.id("master"))
        started = time.monotonic()
        self._whole()
        return f"list of nodes meanwhile {without}; whole {time.monotonic() - started:.0f} s after the start"

    def _kill_daemons(self) -> None:
        script = f"{EACH_DAEMON} kill -9 ${{p#/proc/}} && echo killed; done"
        killed = self._containers.do("exec", self._containers.id("worker1"), "sh", "-c", script).count("killed")
        check(killed > 1, f"{killed} daemons found")
        until(lambda: self._containers.log("worker1").count("killed by SIGKILL") == killed, "the supervisor noticed")
        self._whole()

    def _recreate(self) -> None:
        before = self._containers.id("worker2")
        self._containers.compose("down")
        self._containers.compose("up", "-d", "--no-build")
        check(self._containers.id("worker2") not in ("", before), "no new container")
        self._whole()

    def _end(self) -> None:
        for service in reversed(NODES):
            self._containers.do("stop", self._containers.id(service))
            self._ended(service)

    def _whole(self) -> None:
        """Wait until all nodes are healthy, listed and reached through the balancer."""
        for service in NODES:
            until(lambda service=service: self._containers.healthy(service), f"{service} is healthy")  # type: ignore[misc]
        until(lambda: self._api.log_in("admin", PASSWORD) == 200, "the administrator can log in")
        until(lambda: self._api.nodes() == set(NODES), "all nodes are listed")
        until(lambda: self._api.answering() == (set(NODES), {200}), "all nodes are behind the balancer")

    def _only(self, *names: str) -> None:
        """Wait until exactly these nodes are listed, and every request through the balancer is answered by one."""
        until(lambda: self._api.answering() == (set(names), {200}), f"only {', '.join(names)} behind the balancer")
        until(lambda: self._api.nodes() == set(names), f"only {', '.join(names)} listed")

    def _ended(self, service: str) -> None:
        status = self._containers.do("inspect", "-f", "{{.State.ExitCode}}", self._containers.id(service)).strip()
        check(status == "0", f"{service} ended with status {status}")


EACH_DAEMON = "for p in /proc/[0-9]*; do grep -qsa '^secmon-[a-z]*d --root' $p/cmdline || continue;"
"""Start of a loop over the daemons of a container; ends with ``done``."""

LOG_IN = """
import base64, ssl, sys, urllib.request
basic = base64.b64encode(sys.argv[1].encode()).decode()
url = "https://127.0.0.1:55000/security/user/authenticate"
request = urllib.request.Request(url, method="POST", headers={"Authorization": "Basic " + basic})
print(urllib.request.urlopen(request, context=ssl._create_unverified_context()).status)
"""
"""Run in a container: log in at its own node."""


def missing(answer: dict[str, Any]) -> set[str]:
    """The nodes that are missing in an answer."""
    return {name for item in answer.get("data", {}).get("failed_items", []) for name in item["id"]}


def drill(steps: Steps, containers: Containers, api: Api) -> None:
    Drill(steps, containers, api).all()


if __name__ == "__main__":
    sys.exit(run(PROJECT, drill, __doc__))
