"""Responses at this server: real programs with the public protocol, undone after their time."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.common.background import cancel
from secmon.common.counters import Counters
from secmon.config.responses import ActiveResponse, Command
from secmon.outputs.alert import Alert
from secmon.outputs.responses import server_responses
from secmon.outputs.responses.pending_undo import PendingUndo
from secmon.outputs.responses.server_responses import ServerResponses
from tests.manual_clock import ManualClock
from tests.outputs.alert_files import alert
from tests.waiting import until

pytestmark = pytest.mark.anyio

STATEFUL = """#!/bin/sh
read message
echo "$message" >> {out}
case "$message" in
*'"command":"add"'*)
    echo '{{"version":1,"command":"check_keys","parameters":{{"keys":["198.51.100.7"]}}}}'
    read verdict
    echo "$verdict" >> {out}
esac
"""


class Server:
    """An installation with one program; ``clock`` is set by tests."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server_responses, "TICK_SECONDS", 0.01)
        self.root, self.out = root, root / "out"
        self.clock, self.counters = ManualClock(), Counters()
        (root / "active-response/bin").mkdir(parents=True)
        self.folder = root / "undo"
        self.folder.mkdir()

    def install(self, text: str) -> None:
        program = self.root / "active-response/bin/block"
        program.write_text(text.format(out=self.out))
        program.chmod(0o750)

    @asynccontextmanager
    async def running(self, *offences: int) -> AsyncIterator[ServerResponses]:
        made = ServerResponses(
            self.root, PendingUndo(self.folder), offences=offences, node="n1", clock=self.clock, counters=self.counters
        )
        task = asyncio.create_task(made.undo())
        try:
            yield made
        finally:
            await cancel(task)

    def said(self) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.out.read_text().splitlines()] if self.out.exists() else []

    def commands(self) -> list[str]:
        return [one["command"] for one in self.said()]

    async def undone(self, count: float) -> None:
        """Wait until so many responses are undone."""
        await until(lambda: self.count("undone") == count)

    def count(self, name: str) -> float:
        return self.counters.snapshot().get(f"responses.{name}", 0)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(tmp_path, monkeypatch)


def response(timeout: int = 0, executable: str = "block") -> ActiveResponse:
    command = Command(name="block", executable=executable, arguments=("-x", "1"), timed=bool(timeout))
    return ActiveResponse(command=command, location="server", timeout=timeout)


ALERT = Alert(msgspec.json.encode(alert(1)))


async def test_a_response_that_is_not_undone(server: Server) -> None:
    server.install("#!/bin/sh\ncat >> {out}\n")
    async with server.running() as responses:
        await responses.answer(response(), ALERT)
    assert server.said() == [
        {
            "version": 1,
            "origin": {"name": "n1", "module": "secmon-analysisd"},
            "command": "add",
            "parameters": {"extra_args": ["-x", "1"], "alert": alert(1), "program": "active-response/bin/block"},
        }
    ]
    assert (server.count("run"), server.count("failed")) == (1, 0)


async def test_it_is_undone_after_its_time(server: Server) -> None:
    server.install(STATEFUL)
    async with server.running() as responses:
        await responses.answer(response(60), ALERT)
        assert server.commands() == ["add", "continue"]
        server.clock.advance(59)
        await responses.answer(response(60), ALERT)
        assert server.commands()[2:] == ["add", "abort"], "in force already; its time begins anew"
        server.clock.advance(59)
        await until(lambda: server.count("to_be_undone") == 1)
        server.clock.advance(2)
        await until(lambda: server.count("undone") == 1)
    assert server.commands()[4:] == ["delete"]
    assert server.said()[4]["parameters"]["alert"] == alert(1)
    assert list(server.folder.iterdir()) == []


async def test_it_is_undone_after_a_kill(server: Server) -> None:
    server.install(STATEFUL)
    async with server.running() as responses:
        await responses.answer(response(60), ALERT)
    (file,) = server.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (server.folder / "torn.json").write_text("{")
    server.clock.advance(61)
    async with server.running():
        await until(lambda: server.count("undone") == 1)
    assert server.commands() == ["add", "continue", "delete"]


async def test_repeated_offenders_wait_longer(server: Server) -> None:
    server.install(STATEFUL)
    async with server.running(600, 1200) as responses:
        for wait in (60, 600, 1200, 1200):
            await responses.answer(response(60), ALERT)
            server.clock.advance(wait - 1)
            done = server.count("undone")
            await until(lambda: server.count("to_be_undone") == 1)
            assert server.count("undone") == done
            server.clock.advance(2)
            await server.undone(done + 1)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\nread x; sleep 100 & sleep 100\n", "no program\n"])
async def test_programs_that_fail_cost_themselves_only(
    server: Server, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_responses, "RUN_SECONDS", 0.3)
    server.install(text)
    async with server.running() as responses:
        await responses.answer(response(), ALERT)
        await responses.answer(response(5), ALERT)
    assert server.count("run") == 0
    assert server.count("failed") == 2


@pytest.mark.parametrize("name", ["../../bin/sh", "/bin/sh", "..", ""])
async def test_only_programs_of_the_folder_are_run(server: Server, name: str) -> None:
    async with server.running() as responses:
        await responses.answer(response(executable=name), ALERT)
    assert server.count("failed") == 1


def test_which_alerts_this_server_answers() -> None:
    own = Alert(msgspec.json.encode(alert(1, agent={"id": "000", "name": "mgr"})))
    local = ActiveResponse(command=Command(name="x", executable="x"), location="local")
    assert [ServerResponses.wants(local, one) for one in (own, ALERT)] == [True, False]
    assert ServerResponses.wants(response(), ALERT)


async def test_a_program_is_bounded(server: Server) -> None:
    server.install(
        "#!/bin/sh\nread message\nulimit -c > {out}.limits; ulimit -n >> {out}.limits; ulimit -v >> {out}.limits\n"
    )
    async with server.running() as responses:
        await responses.answer(response(), ALERT)
    await until(lambda: (server.root / "out.limits").exists())
    assert (server.root / "out.limits").read_text().split() == ["0", "1024", str(2 << 20)]
