"""Clients that create, change, delete and read objects through random nodes, and write down the answers."""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx

from tests.faults.history import History, Outcome, Read, Refusal, Write
from tests.faults.objects import GROUPS, KINDS, Kind, Object, Request
from tests.integration.ha_kit import HaCluster
from tests.integration.kit import RealNode

UNCHANGED = frozenset({1017, 3012, 3020, 3023, 3043, 3050, 3051, 3053})
"""Codes of answers that say: nothing was changed. 1017: the other daemons of a node that was killed start still."""
TIMEOUT_SECONDS = 20.0
PAUSE_SECONDS = 0.05
_SHOWN = 500
"""Characters of an answer."""
_MOST_VALUES = 6
"""An object that has had so many is left alone."""


class Clients:
    """Threads that work until :meth:`stop`. Each changes its own objects and reads all; the first only reads."""

    def __init__(
        self,
        cluster: HaCluster,
        history: History,
        *,
        count: int = 5,
        seed: int = 0,
        kinds: Sequence[Kind] = KINDS,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        """``kinds`` of objects that they make; ``pause``: seconds between two requests of one."""
        self.history, self.statuses = history, Counter[str]()
        self._cluster, self._stopped = cluster, threading.Event()
        self._objects: list[Object] = []
        self._kinds, self._pause = kinds, pause
        self._prefix = secrets.token_hex(2)
        self._lock = threading.Lock()
        leader = cluster.wait_leader()
        for group in set(GROUPS) - {item["name"] for item in cluster.call(leader, "/groups")["data"]["affected_items"]}:
            cluster.call(leader, "/groups", method="POST", json={"group_id": group})
        self._threads = ThreadPoolExecutor(count)
        self._runs = [self._threads.submit(self._run, number, seed) for number in range(count)]

    def stop(self) -> None:
        """Raises what has ended a thread."""
        self._stopped.set()
        self._threads.shutdown()
        for run in self._runs:
            run.result()

    def objects(self) -> list[Object]:
        """All that were ever made, or may have been."""
        with self._lock:
            return list(self._objects)

    def _run(self, number: int, seed: int) -> None:
        choice = random.Random(f"{seed} {number}")
        with Session(self._cluster) as session:
            worker = _Worker(session, self.history, choice, f"{self._prefix}{number}", self.statuses, self._kinds)
            while not self._stopped.is_set():
                if number == 0 or choice.random() < 0.3:
                    if (known := self.objects()) and not worker.read(choice.choice(known[-100:])):
                        self._stopped.wait(self._pause)
                elif (made := worker.change_something()) is not None:
                    with self._lock:
                        self._objects.append(made)
                self._stopped.wait(self._pause)


class Session:
    """A client's connections and tokens, one of each for each node."""

    def __init__(self, cluster: HaCluster) -> None:
        self.nodes: Sequence[RealNode] = cluster.nodes
        self._password = cluster.password
        self._client = httpx.Client(verify=False, timeout=TIMEOUT_SECONDS)
        self._tokens: dict[str, str] = {}

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, node: RealNode, request: Request) -> httpx.Response:
        """As the administrator, unless the request says otherwise. Raises httpx.HTTPError."""
        options: dict[str, Any] = {**request.options}
        if "auth" not in options:
            token = self._tokens.get(node.name) or self._login(node)
            options["headers"] = {**options.get("headers", {}), "Authorization": f"Bearer {token}"}
        answer = self._client.request(request.method, node.url + request.path, **options)
        if answer.status_code == 401 and "auth" not in options:
            self._tokens.pop(node.name, None)
        return answer

    def _login(self, node: RealNode) -> str:
        """Raises httpx.ConnectError when there is no token: the request was not sent."""
        try:
            url = f"{node.url}/security/user/authenticate?raw=true"
            answer = self._client.post(url, auth=("admin", self._password))
        except httpx.HTTPError as error:
            raise httpx.ConnectError(f"no login at {node.name}: {error}") from error
        if answer.status_code != 200:
            raise httpx.ConnectError(f"no login at {node.name}: {answer.status_code}")
        self._tokens[node.name] = answer.text
        return answer.text


class _Worker:
    """One thread's work."""

    def __init__(
        self,
        session: Session,
        history: History,
        choice: random.Random,
        prefix: str,
        statuses: Counter[str],
        kinds: Sequence[Kind],
    ) -> None:
        self._session, self._history, self._choice, self._statuses = session, history, choice, statuses
        self._kinds = kinds
        self._prefix, self._made = prefix, 0
        self._live: list[Object] = []

    def change_something(self) -> Object | None:
        """Make, change or delete an object of our own; the one that was made."""
        dice = self._choice.random()
        if dice < 0.4 or not self._live:
            return self._make()
        thing = self._choice.choice(self._live)
        if dice < 0.8 and len(thing.values) < _MOST_VALUES:
            value = thing.kind.next_value()
            thing.values.append(value)
            outcome, _ = self._write(thing, value, thing.kind.change(thing, value))
            if outcome is Outcome.NOT_DONE:
                thing.values.remove(value)
        else:
            outcome, _ = self._write(thing, None, thing.kind.delete(thing))
            if outcome is Outcome.DONE:
                self._live.remove(thing)
        if outcome is Outcome.UNKNOWN:
            self._live.remove(thing)
        return None

    def _make(self) -> Object | None:
        [kind] = self._choice.choices(self._kinds, [kind.weight for kind in self._kinds])
        self._made += 1
        thing = Object(kind, f"{self._prefix}-{self._made}", [kind.first_value()])
        outcome, thing.number = self._write(thing, thing.values[0], kind.create(thing, thing.values[0]))
        if outcome is Outcome.DONE:
            self._live.append(thing)
        known = outcome is Outcome.DONE or (outcome is Outcome.UNKNOWN and _named(kind))
        return thing if known else None

    def read(self, thing: Object) -> bool:
        """Ask a random node for the object; whether it said anything."""
        unread = read(self._session, self._history, self._choice.choice(self._session.nodes), thing)
        self._statuses[f"unread: {unread}" if unread else "200"] += 1
        return not unread

    def _write(self, thing: Object, value: str | None, request: Request) -> tuple[Outcome, str]:
        """Outcome of a change, and the id that the object was given."""
        node, begun, number = self._choice.choice(self._session.nodes), time.monotonic(), thing.number
        try:
            response = self._session.ask(node, request)
            outcome, said = judged(response)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            outcome, said = Outcome.NOT_DONE, "not reached"
        except httpx.HTTPError as error:
            outcome, said = Outcome.UNKNOWN, type(error).__name__
        except RefusedError:
            outcome, said = Outcome.UNKNOWN, "refused"
            text = f"{thing.key}: {request.method} {request.path} at {node.name}: {response.text}"
            self._history.refused(Refusal(thing.key, text, begun, time.monotonic()))
        if outcome is Outcome.DONE and not number:
            number = thing.kind.number(response.json())
        self._statuses[said] += 1
        given = number if not thing.number else ""
        self._history.wrote(Write(thing.key, value, begun, time.monotonic(), outcome, given))
        return outcome, number


def _named(kind: Kind) -> bool:
    """Whether an object of this kind can be read though the answer with its id was lost."""
    return kind.name != "agent"


def read(session: Session, history: History, node: RealNode, thing: Object, *, final: bool = False) -> str:
    """Read the object at a node and write down what was seen; empty, or why nothing was."""
    thing = replace(thing, values=list(thing.values))  # its client may change it meanwhile
    begun = time.monotonic()
    try:
        response = session.ask(node, thing.kind.read(thing))
    except httpx.HTTPError as error:
        return f"{thing.key} at {node.name}: {error!r}"
    seen = thing.kind.seen(thing, response)
    if seen is None:
        return f"{thing.key} at {node.name}: {response.status_code} {response.text[:_SHOWN]}"
    history.read(Read(thing.key, node.name, seen.value, begun, time.monotonic(), seen.other, final))
    return ""


class RefusedError(Exception):
    """A change that is right was refused."""


def judged(response: httpx.Response) -> tuple[Outcome, str]:
    """Outcome that the answer to a change states, and its code. Raises RefusedError."""
    status, body = response.status_code, response.json()
    code = int(body.get("error", 0))
    if status == 200 and code == 0:
        return Outcome.DONE, "200"
    if status == 200:  # of one item: its error
        code = body["data"]["failed_items"][0]["error"]["code"]
    if code in UNCHANGED or status in (401, 429):
        return Outcome.NOT_DONE, f"{status} {code}"
    if status < 500 and not 3000 <= code < 3100:
        raise RefusedError
    return Outcome.UNKNOWN, f"{status} {code}"
