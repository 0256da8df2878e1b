#!/usr/bin/env python3
"""Drill of the containers: starts a cluster, pauses, stops, disconnects and kills nodes, checks what clients get.

    deploy/drill.py [--no-build] [--port N] [--keep]

Works with "docker compose" or podman-compose, in a separate project (secmon-drill) that is removed at the end. Takes
about two minutes.

Exit status: 0 every step passed, 1 a step failed, 2 neither docker nor podman is installed.
"""

import argparse
import base64
import http.client
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = "secmon-drill"
NODES = ("master", "worker1", "worker2")
IMAGES = ("localhost/secmon:latest", "localhost/secmon-balancer:latest")
"""Names in compose.yaml."""
LEASE_SECONDS = 30
"""Internal option clusterd.security_lease, by default."""
LATE_SECONDS = 90.0
"""Limit of every wait."""
BUILD_SECONDS = 1800.0


class Containers:
    """The containers of the project, by the command line of their engine."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = {**os.environ, **environment}
        if _works("docker", "compose", "version") and _works("docker", "info"):
            self.engine, compose = "docker", ["docker", "compose"]
        elif _works("podman", "version") and _works("podman-compose", "version"):
            self.engine, compose = "podman", ["podman-compose"]
        else:
            print("Neither docker compose nor podman with podman-compose works here.", file=sys.stderr)
            raise SystemExit(2)
        self._compose = [*compose, "-p", PROJECT]

    def compose(self, *arguments: str) -> None:
        _run([*self._compose, *arguments], self._environment)

    def build(self) -> None:
        """Build the images and wait for them: podman-compose may return earlier."""
        self.compose("build")
        until(lambda: all(_works(self.engine, "image", "inspect", each) for each in IMAGES), "images", BUILD_SECONDS)

    def do(self, *arguments: str) -> str:
        """Run a command of the engine; its output."""
        return _run([self.engine, *arguments])

    def id(self, service: str) -> str:
        labels = {"project": PROJECT, "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        return self.do("ps", "-aq", *filters).strip()

    def healthy(self, service: str) -> bool:
        """Whether the container's health check passes: run now with podman, the last run with Docker."""
        if self.engine == "podman":
            return _works("podman", "healthcheck", "run", self.id(service))
        return self.do("inspect", "-f", "{{.State.Health.Status}}", self.id(service)).strip() == "healthy"

    def network(self, action: str, service: str) -> None:
        """``connect`` or ``disconnect`` the service; connected again it has its name."""
        names = ["--alias", service] if action == "connect" else []
        self.do("network", action, *names, f"{PROJECT}_default", self.id(service))

    def log(self, service: str) -> str:
        done = subprocess.run(
            [self.engine, "logs", self.id(service)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout


class Api:
    """The API behind the balancer: a connection for each request, so that each may reach another node."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self.token = ""

    def ask(self, method: str, path: str, authorization: str = "", body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and answer; 0 and an empty object without an answer."""
        headers = {"Authorization": authorization or f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._tls)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        return self.ask("GET", path)

    def log_in(self, user: str, password: str) -> int:
        """Log in and keep the token; the status."""
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        status, answer = self.ask("POST", "/security/user/authenticate", f"Basic {basic}")
        if status == 200:
            self.token = answer["data"]["token"]
        return status

    def nodes(self) -> set[str]:
        """Names of the connected nodes; empty without an answer."""
        return {item["name"] for item in self.get("/cluster/nodes")[1].get("data", {}).get("affected_items", [])}

    def answering(self, times: int = 12) -> tuple[set[str], set[int]]:
        """Nodes that answered ``times`` requests, and the statuses of all answers."""
        found = [self.get("/cluster/local/info") for _ in range(times)]
        names = {item["node"] for status, answer in found if status == 200 for item in answer["data"]["affected_items"]}
        return names, {status for status, _ in found}


class Drill:
    """The steps in their order; after each the cluster is complete."""

    def __init__(self, containers: Containers, api: Api, password: str) -> None:
        self._containers, self._api, self._password = containers, api, password
        self.failures = 0

    def step(self, name: str, work: Callable[[], str | None]) -> bool:
        """Do one step; print its name when it begins and its result when it ends. Whether it passed."""
        print(f"begin           {name}", flush=True)
        started = time.monotonic()
        try:
            note = work() or ""
        except (AssertionError, subprocess.SubprocessError) as error:
            self.failures += 1
            note, word = str(error), "FAIL"
        else:
            word = "pass"
        print(f"{word}  {time.monotonic() - started:6.1f} s  {name}{': ' if note else ''}{note}", flush=True)
        return word == "pass"

    def all(self) -> None:
        if not self.step("every node becomes healthy and joins", self._start):
            return  # nothing runs
        self.step("the balancer spreads requests over all nodes", self._spread)
        self.step("a request to all nodes is answered by all", self._fan_out)
        self.step("daemons run as the service user, without capabilities", self._privileges)
        self.step("logs of the containers show the daemons and no secret", self._logs)
        self.step("worker2 paused: answers lack its share; unpaused: it is back", self._pause)
        self.step("worker2 stopped within its grace; started: it is back", self._stop)
        self.step("worker1 cut off: it stops serving; connected: it has what it missed", self._cut_off)
        self.step("master killed: workers serve within the lease, say so after it; started: all is well", self._kill)
        self.step("daemons killed: their supervisor starts them again", self._kill_daemons)
        self.step("new containers on the old volumes are the same nodes", self._recreate)
        self.step("every container ends cleanly", self._end)

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
            check(self._password not in log and "dashboard " not in log, f"{service} shows a password")

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
        until(lambda: self._api.log_in("admin", self._password) == 200, "the administrator can log in")
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


def check(condition: bool, otherwise: str) -> None:
    """Fail the step, also with Python's option -O."""
    if not condition:
        raise AssertionError(otherwise)


def until(condition: Callable[[], bool], what: str, seconds: float = LATE_SECONDS) -> None:
    """Check twice a second until the condition holds; fail the step on a time-out."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds:.0f} s: {what}")
        time.sleep(0.5)


def _works(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=1800)
    check(done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use the images that are there")
    parser.add_argument("--keep", action="store_true", help="leave containers and volumes for a look")
    parser.add_argument("--port", type=int, default=55443, help="port of this host for the balancer (55443)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="secmon-drill-") as folder:
        password = f"Drill-{secrets.token_hex(8)}-Aa1"
        for name, value in {"cluster_key": secrets.token_hex(16), "admin_password": password}.items():
            (Path(folder) / name).write_text(value)
            (Path(folder) / name).chmod(0o600)
        containers = Containers({"SECRETS": folder, "API_PORT": str(options.port)})
        drill = Drill(containers, Api(options.port), password)
        if not options.no_build and not drill.step("the images are built", containers.build):
            return 1
        try:
            drill.all()
        finally:
            if not options.keep:
                drill.step("everything is removed", lambda: containers.compose("down", "-v"))
    print("All steps passed." if not drill.failures else f"{drill.failures} steps failed.")
    return 1 if drill.failures else 0


if __name__ == "__main__":
    sys.exit(main())
