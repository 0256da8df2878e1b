"""What the drills of the containers share: the engine, the API behind the balancer, steps, and their command line."""

import argparse
import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
LATE_SECONDS = 90.0
"""Limit of every wait."""
BUILD_SECONDS = 1800.0


@dataclass(frozen=True)
class Project:
    """A compose file of the repository, with the images that it builds and the secrets that it needs."""

    name: str
    file: str
    images: Sequence[str]
    secrets: Mapping[str, str]


class Containers:
    """The containers of a project, by the command line of their engine."""

    def __init__(self, project: "Project", environment: dict[str, str]) -> None:
        self._project = project
        self._environment = {**os.environ, **environment}
        if _works("docker", "compose", "version") and _works("docker", "info"):
            self.engine, compose = "docker", ["docker", "compose"]
        elif _works("podman", "version") and _works("podman-compose", "version"):
            self.engine, compose = "podman", ["podman-compose"]
        else:
            print("Neither docker compose nor podman with podman-compose works here.", file=sys.stderr)
            raise SystemExit(2)
        self._compose = [*compose, "-p", project.name, "-f", str(REPOSITORY / project.file)]

    def compose(self, *arguments: str) -> None:
        _run([*self._compose, *arguments], self._environment)

    def build(self) -> None:
        """Build the images and wait for them: podman-compose may return earlier."""
        self.compose("build")
        until(
            lambda: all(_works(self.engine, "image", "inspect", each) for each in self._project.images),
            "images",
            BUILD_SECONDS,
        )

    def do(self, *arguments: str) -> str:
        """Run a command of the engine; its output."""
        return _run([self.engine, *arguments])

    def id(self, service: str) -> str:
        labels = {"project": self._project.name, "service": service}
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
        self.do("network", action, *names, f"{self._project.name}_default", self.id(service))

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


class Steps:
    """Steps one after the other, and how many of them have failed."""

    def __init__(self) -> None:
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


def run(project: Project, drill: Callable[[Steps, Containers, Api], None], description: str) -> int:
    """Build the images, run the drill in a project of its own, and remove it; the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="use the images that are there")
    parser.add_argument("--keep", action="store_true", help="leave containers and volumes for a look")
    parser.add_argument("--port", type=int, default=55443, help="port of this host for the balancer (55443)")
    options = parser.parse_args()
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix=f"{project.name}-") as folder:
        for name, value in project.secrets.items():
            (Path(folder) / name).write_text(value)
            (Path(folder) / name).chmod(0o600)
        containers = Containers(project, {"SECRETS": folder, "API_PORT": str(options.port)})
        if not options.no_build and not steps.step("the images are built", containers.build):
            return 1
        try:
            drill(steps, containers, Api(options.port))
        finally:
            if not options.keep:
                steps.step("everything is removed", lambda: containers.compose("down", "-v"))
    print("All steps passed." if not steps.failures else f"{steps.failures} steps failed.")
    return 1 if steps.failures else 0
