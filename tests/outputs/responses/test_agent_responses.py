"""Responses for agents: who gets them, in which form, and what is passed over."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.alerts.silences import Silences
from secmon.common.background import cancel
from secmon.common.counters import Counters
from secmon.config.responses import ActiveResponse, Command
from secmon.engine.output.responses import AnsweredAlert
from secmon.journal.journal import JournalWriter
from secmon.outputs.alert import Alert
from secmon.outputs.responses import response_reader
from secmon.outputs.responses.agent_responses import AgentResponses, agent_message
from secmon.outputs.responses.allow_list import AllowList
from secmon.outputs.responses.response_reader import ResponseReader
from tests.alerts.silenced import open_master, silence
from tests.filelimit import file_size_limit
from tests.manual_clock import ManualClock
from tests.outputs.alert_files import alert
from tests.waiting import until

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 22, 12, 0, 1, tzinfo=UTC)
VERSIONS = {1: "v4.8.0", 2: "v4.1.0", 3: "v4.8.0", 4: None}


class Agents:
    """Agents 1 to 4 of this node, without 3, which is on another."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[tuple[int, str]] = []
        self.elsewhere: list[tuple[str, str]] = []
        self.counters = Counters()
        self.clock = ManualClock(NOW)
        self.folder = folder
        self.security_db = folder.with_name("security.db")
        self.journal = JournalWriter(folder, self.clock, limit=1 << 20, segment=1 << 17)

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        self.sent += [one for one in messages if one[0] != 3]
        return [number for number, _ in messages if number == 3]

    def versions(self, numbers: Sequence[int] | None) -> Mapping[int, str | None]:
        wanted = [1, 2, 4] if numbers is None else numbers
        return {number: VERSIONS[number] for number in wanted if number in VERSIONS}

    async def run_elsewhere(self, response: ActiveResponse, alert: Alert) -> int:
        self.elsewhere.append((response.name, alert.text("id")))
        return 1

    def decide(self, response: ActiveResponse, **fields: Any) -> None:
        self.journal.append([msgspec.json.encode(AnsweredAlert([response], alert(1, **fields)))])

    async def reached(self, count: int) -> None:
        """Wait for so many messages."""
        await until(lambda: len(self.sent) >= count)

    def count(self, name: str) -> float:
        return self.counters.snapshot().get(f"responses.{name}", 0)

    @asynccontextmanager
    async def reading(self, *, clustered: bool = True) -> AsyncIterator[None]:
        answers = AgentResponses(
            self, self.versions, self.run_elsewhere if clustered else None,
            node="n1", clock=self.clock, counters=self.counters,
        )  # fmt: skip
        reader = ResponseReader(
            "agents", self.folder, answers.answer, wants=answers.wants, allowed=AllowList(["10.0.0.0/8"]),
            silences=Silences(self.security_db),
            oldest=timedelta(minutes=10), clock=self.clock, counters=self.counters,
        )  # fmt: skip
        task = asyncio.create_task(reader.run())
        try:
            yield
        finally:
            await cancel(task)


@pytest.fixture
def agents(tmp_path: Path) -> Any:
    made = Agents(tmp_path / "journal")
    yield made
    made.journal.close()


def response(location: str, agent: int = 0) -> ActiveResponse:
    command = Command(name="drop", executable="drop", arguments=("-x",), timed=True)
    return ActiveResponse(command=command, location=location, agent=agent, timeout=60)


def of_agent(number: int) -> dict[str, Any]:
    return {"agent": {"id": f"{number:03d}", "name": "a", "ip": "any"}}


async def test_the_agent_of_the_alert(agents: Agents) -> None:
    async with agents.reading():
        agents.decide(response("local"), **of_agent(1))
        await until(lambda: agents.count("sent") == 1)
    ((number, message),) = agents.sent
    assert number == 1
    assert json.loads(message.removeprefix("#!-execd ")) == {
        "version": 1,
        "origin": {"name": "n1", "module": "secmon-analysisd"},
        "command": "drop60",
        "parameters": {"extra_args": ["-x"], "alert": alert(1, **of_agent(1))},
    }
    assert agents.count("last_delay_ms") == 877


async def test_an_agent_before_4_2(agents: Agents) -> None:
    async with agents.reading():
        agents.decide(response("local"), **of_agent(2), data={"srcip": "192.0.2.7", "dstuser": "ro;ot"})
        await until(lambda: agents.count("sent") == 1)
    assert agents.sent[0][1] == "#!-execd drop60 ro\\;ot 192.0.2.7 1700000000.1 5716 /var/log/auth.log - -x"


async def test_one_that_is_named_and_all(agents: Agents) -> None:
    async with agents.reading():
        agents.decide(response("defined-agent", 1))
        await until(lambda: agents.count("sent") == 1)
        agents.decide(response("defined-agent", 3))
        await until(lambda: agents.elsewhere == [("drop60", "1700000000.1")])
        agents.decide(response("all"))
        await until(lambda: len(agents.elsewhere) == 2)
    assert [number for number, _ in agents.sent] == [1, 1, 2]
    assert agents.count("unknown_version") == 1


async def test_agents_that_are_away_are_counted(agents: Agents) -> None:
    async with agents.reading(clustered=False):
        agents.decide(response("local"), **of_agent(3))
        agents.decide(response("defined-agent", 9))
        agents.decide(response("all"))
        await until(lambda: agents.count("sent") == 2)
    assert agents.count("unreachable") == 2


async def test_what_is_not_for_agents_is_passed_over(agents: Agents) -> None:
    async with agents.reading():
        agents.decide(response("server"), **of_agent(1))
        agents.decide(response("local"), agent={"id": "000", "name": "mgr"})
        agents.decide(response("local"), **of_agent(1), data={"srcip": "10.1.2.3"})
        agents.decide(response("local"), **of_agent(1), timestamp="2026-11-22T11:49:00.000+0000")
        agents.journal.append([b"no JSON"])
        agents.decide(response("local"), **of_agent(1))
        await until(lambda: agents.count("sent") == 1)
    assert [agents.count(one) for one in ("allowed", "stale", "malformed")] == [1, 1, 1]


async def test_a_kill_loses_no_response(agents: Agents) -> None:
    for number in range(3):
        agents.decide(response("local"), **of_agent(1))
        async with agents.reading():
            await agents.reached(number + 1)
    async with agents.reading():
        agents.decide(response("local"), **of_agent(2))
        await until(lambda: agents.sent[-1][0] == 2)
    assert len(agents.sent) >= 4


async def test_a_position_that_cannot_be_written_delays_and_repeats_nothing(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response_reader, "RETRY_SECONDS", 0.01)
    agents.decide(response("local"), **of_agent(1))
    agents.decide(response("local"), **of_agent(2))
    with ExitStack() as disk:
        really_send = agents.send

        async def send(messages: Sequence[tuple[int, str]]) -> Sequence[int]:
            if not agents.sent:
                disk.enter_context(file_size_limit(0))
            return await really_send(messages)

        monkeypatch.setattr(agents, "send", send)
        async with agents.reading():
            await until(lambda: "too large" in caplog.text)
            assert [number for number, _ in agents.sent] == [1]
            disk.close()
            await agents.reached(2)
    assert [number for number, _ in agents.sent] == [1, 2]
    assert caplog.text.count("too large") == 1


def test_an_alert_that_is_too_long_for_a_message_loses_its_logs() -> None:
    long = Alert(msgspec.json.encode(alert(1, full_log="x" * 70_000, previous_output="y" * 70_000)))
    message = agent_message(response("local"), long, "n1", "v4.8.0")
    sent = json.loads(message.removeprefix("#!-execd "))["parameters"]["alert"]
    assert set(alert(1)) - set(sent) == {"full_log"}
    with pytest.raises(ValueError):
        agent_message(response("local"), Alert(b'{"data": {"x": "%b"}}' % (b"z" * 70_000)), "n1", "v4.8.0")


async def test_a_silence_keeps_alerts_from_being_answered(agents: Agents) -> None:
    with closing(open_master(agents.security_db)) as store:
        silence(store, seconds=(0, 1), levels=(0, 16))
        async with agents.reading():
            agents.decide(response("local"), agent={"id": "001"}, timestamp="2026-11-22T12:00:00.500+0000")
            agents.decide(response("local"), agent={"id": "001"}, timestamp="2026-11-22T12:00:01.000+0000")
            await agents.reached(1)
            await until(lambda: agents.count("silenced") == 1)
    assert len(agents.sent) == 1
