"""The module that requests keys: its queue, counters and log."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from secmon.agentlink.key_request.add_agent import OPERATION, on_master, on_worker
from secmon.agentlink.key_request.failures import Failed, TimedOut
from secmon.agentlink.key_request.requests import COUNTERS, MAX_REMEMBERED, KeyRequests
from secmon.agents.link.wire import MissingKey
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registration import AgentRegistrar
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.auth import AuthSettings, Force, KeyRequest
from tests.waiting import until

pytestmark = pytest.mark.anyio

KEY = "0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
OTHER = KEY[::-1]
NOW = Force(disconnected_time=None, after_registration_time=None)


def agent(wanted: MissingKey, key: str = KEY) -> bytes:
    data = {"id": wanted.value, "name": f"agent-{wanted.value}", "ip": "any", "key": key}
    return json.dumps({"error": 0, "data": data}).encode()


class Scripted:
    """A link and a source in one: records its requests, answers on demand."""

    def __init__(self) -> None:
        self.reported: asyncio.Queue[MissingKey | None] = asyncio.Queue()
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may = asyncio.Event()
        self.answers: dict[str, bytes | Exception] = {}

    async def keys(self) -> AsyncGenerator[MissingKey, None]:
        while (wanted := await self.reported.get()) is not None:
            yield wanted
        raise SecmonError(1014, "secmon-remoted")

    async def request(self, wanted: MissingKey) -> bytes:
        self.asked.append(str(wanted))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.may.wait()
        finally:
            self.at_once -= 1
        answer = self.answers.get(wanted.value) or agent(wanted)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Bench:
    """The module that runs, with a registry."""

    def __init__(self, paths: Paths, store: AgentStore, settings: KeyRequest, force: Force) -> None:
        self.script, self.counters, self.store = Scripted(), Counters(), store
        self.registrar = AgentRegistrar(store, paths, SystemClock(), AuthSettings(force=force))
        self.module = KeyRequests(
            settings,
            self.script,
            self.script,
            on_master(self.registrar),
            clock=SystemClock(),
            counters=self.counters,
            retry_seconds=0.01,
        )

    def report(self, *values: str) -> None:
        for value in values:
            self.script.reported.put_nowait(MissingKey("id", value))

    async def asked(self, value: str, counter: str) -> None:
        """Ask, and wait until that is counted so."""
        before = self.count(counter)
        self.report(value)
        await until(lambda: self.count(counter) == before + 1)

    def count(self, name: str) -> float:
        return self.counters.snapshot()[f"key_requests.{name}"]

    @property
    def lines(self) -> list[str]:
        with self.store.read() as connection:
            return [one.line for one in entries(connection)]


@asynccontextmanager
async def bench(folder: Path, *, force: Force = NOW, threads: int = 1, queue_size: int = 1024) -> AsyncIterator[Bench]:
    paths = Paths(folder)
    store = AgentStore(paths.agents_db, durable=False)
    made = Bench(paths, store, KeyRequest(enabled=True, threads=threads, queue_size=queue_size), force)
    task = asyncio.create_task(made.module.run())
    try:
        yield made
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def test_an_answer_is_an_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path) as here:
        here.script.may.set()
        here.report("007")
        with caplog.at_level(logging.DEBUG):
            await until(lambda: here.count("answered") == 1)
        assert here.lines == [f"007 agent-007 any {KEY}"]
        assert "Agent 007 (agent-007) is registered" in caplog.text
        assert KEY not in caplog.text
        assert {name: here.count(name) for name in COUNTERS if here.count(name)} == {"asked": 1, "answered": 1}


async def test_each_key_is_requested_once_at_a_time_and_the_queue_is_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path, threads=2, queue_size=3) as here:
        here.report("001", "002", "001")
        await until(lambda: len(here.script.asked) == 2)
        here.report("003", "004", "003", "005", "006", "007", "002")
        await until(lambda: here.count("dropped") == 2)
        here.script.may.set()
        await until(lambda: here.count("answered") == 5)
        assert sorted(here.script.asked) == [f"id:00{one}" for one in range(1, 6)]
        assert here.script.most_at_once == 2
        here.report("006")  # it was dropped, and may come again
        await until(lambda: here.count("answered") == 6)
        assert here.count("asked") == 6


async def test_the_link_may_restart(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.script.may.set()
        here.script.reported.put_nowait(None)
        here.report("001")
        await until(lambda: here.count("answered") == 1)


async def test_failures_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with bench(tmp_path) as here:
        script = here.script
        script.may.set()

        async def request(value: str, answer: bytes | Exception | None, counter: str) -> None:
            script.answers = {value: answer} if answer is not None else {}
            await here.asked(value, counter)

        refused = json.dumps({"error": 1, "message": f"none, not even {KEY}"}).encode()
        for value in ("001", "001", "002"):
            await request(value, refused, "refused")
            await request(value, Failed("there is no program"), "failed")
            await request(value, TimedOut("slow"), "timed_out")
        assert [one.getMessage().removeprefix("The key request ") for one in caplog.records] == [
            "id:001 yields no key: error 1: none, not even (hidden)",
            "id:001 yields no key: there is no program",
            "id:001 yields no key: slow",
            "id:001 yields no key: error 1: none, not even (hidden)",
            "id:001 yields no key: slow",
            "id:002 yields no key: error 1: none, not even (hidden)",
            "id:002 yields no key: slow",
        ]
        caplog.clear()
        await request("001", None, "answered")
        await request("003", Failed("there is no program"), "failed")
        assert len(caplog.records) == 1  # it worked in between
        assert KEY not in caplog.text


async def test_remembered_failures_are_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path, queue_size=5000) as here:
        here.script.may.set()
        values = [str(number) for number in range(1, MAX_REMEMBERED + 50)]
        here.script.answers = dict.fromkeys(values, b'{"error": 1}')
        here.report(*values)
        await until(lambda: here.count("refused") == len(values))
        assert len(here.module._last_failures) == MAX_REMEMBERED


async def test_the_rules_of_replacement_hold(tmp_path: Path) -> None:
    wanted = MissingKey("id", "001")
    async with bench(tmp_path) as here:
        here.script.may.set()
        for key, counter in ((KEY, "answered"), (KEY, "refused"), (OTHER, "answered")):
            here.script.answers = {"001": agent(wanted, key)}
            await here.asked("001", counter)
            assert here.lines == [f"001 agent-001 any {key}"]
        here.registrar.settings = AuthSettings()  # an hour after the registration
        here.script.answers = {"001": agent(wanted)}
        here.report("001", "000")
        await until(lambda: here.count("refused") == 3)
        assert here.lines == [f"001 agent-001 any {OTHER}"]


async def test_a_worker_calls_the_master(tmp_path: Path) -> None:
    new = New(id=7, name="web-07", key=KEY, key_hash="h")
    answers: list[object] = [[7, "web-07", "any", KEY, 1, None, None, 1], {"no": "row"}]
    asked = []

    async def call_master(operation: str, params: dict[str, object]) -> object:
        asked.append((operation, params))
        return answers.pop(0)

    add_agent = on_worker(call_master)
    assert (await add_agent(new)).line == f"007 web-07 any {KEY}"
    with pytest.raises(SecmonError) as caught:
        await add_agent(new)
    assert caught.value.code == 3036
    assert KEY not in str(caught.value)
    assert asked[0] == (OPERATION, {"id": 7, "name": "web-07", "address": "any", "key": KEY, "key_hash": "h"})
