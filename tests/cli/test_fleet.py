"""``secmon fleet`` as a process, against a scripted server."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.runner import run
from tests.simulator.server import HOST, ScriptedServer, scripted
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def start(server: ScriptedServer, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "secmon.cli", "fleet", f"{HOST}:{server.port}:{server.enrolment_port}",
        "--speed", "50", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_agents_come_and_go(tmp_path: Path) -> None:
    async with scripted(tmp_path) as server:
        process = await start(server, "-n", "3", "--label", "env=test", "--keys", str(tmp_path / "keys"), "--json")
        await until(lambda: len(server.agents) == 3 and all(each.keepalives for each in server.agents.values()))
        assert '"env":test\n' in server.agents["001"].keepalives[0]
        process.send_signal(signal.SIGINT)
        out, said = await process.communicate()
        data = json.loads(out)["data"]
        assert (process.returncode, data["enrolled"], data["not_connected"]) == (0, 3, 0)
        assert "3 of 3 agents connected" in said.decode()
        assert len((tmp_path / "keys" / "client.keys").read_text().splitlines()) == 3
        assert all(each.said(b"#!-agent shutdown ") for each in server.agents.values())


@pytest.mark.parametrize("option", ["--rate", "--speed", "--seconds"])
def test_numbers_that_are_none_are_wrong_usage(option: str) -> None:
    result = run("fleet", HOST, option, "nan")
    assert (result.exit_code, "'nan' is not a number" in result.stderr) == (2, True)


async def test_refusal_is_shown(tmp_path: Path) -> None:
    async with scripted(tmp_path) as server:
        server.reply = "ERROR: Invalid password"
        process = await start(server, "-n", "1", "--seconds", "1")
        _, said = await process.communicate()
        assert process.returncode == 1
        assert "ERROR: Invalid password" in said.decode()


async def test_the_reason_of_failed_connections_is_shown() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "secmon.cli", "fleet", "nosuch.invalid", "-n", "1", "--seconds", "1", "--json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, said = await process.communicate()
    assert process.returncode == 1
    (reason, times), *_ = json.loads(out)["data"]["failures"].items()
    assert reason.startswith("nosuch.invalid: ")
    assert times > 0
    assert reason in said.decode()
