"""Alerts by syslog at real sockets; receivers that are away, slow or hostile."""

import asyncio
import json
import shutil
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from secmon.common.clock import SystemClock
from secmon.common.errors import ConfigError
from secmon.config.outputs import AlertConditions, SyslogOutput, TlsFiles
from secmon.outputs.delivery import Delivery
from secmon.outputs.syslog.syslog_output import SyslogReceiver
from tests.integration.kit import free_port
from tests.outputs.alert_files import AlertFiles
from tests.outputs.conftest import Certificate
from tests.outputs.receivers import datagram_server, syslog_server
from tests.outputs.running import Running, running
from tests.waiting import until

pytestmark = pytest.mark.anyio


def sending(
    files: AlertFiles, *, killed: bool = False, name: str = "out", **settings: Any
) -> AbstractAsyncContextManager[Running]:
    chosen = SyslogOutput(server="127.0.0.1", format="json", **settings)
    receiver = SyslogReceiver(chosen, root=files.root, host="node01.example.org", clock=SystemClock())
    return running(files, partial(Delivery, receiver), name=name, killed=killed)


def numbers(messages: list[bytes]) -> list[int]:
    found = (json.loads(one[one.index(b"{") :])["id"] for one in messages)
    return [int(one.partition(".")[2]) for one in found]


@pytest.mark.parametrize("rfc", [3164, 5424])
async def test_tcp(files: AlertFiles, rfc: int) -> None:
    async with syslog_server() as server, sending(files, port=server.port, protocol="tcp", rfc=rfc) as out:
        files.number(*range(1200))
        await until(lambda: len(server.messages) == 1200)
        assert numbers(server.messages) == list(range(1200))
        await until(lambda: out.count("delivered") == 1200)


async def test_udp(files: AlertFiles) -> None:
    async with datagram_server() as (server, port), sending(files, port=port) as out:
        files.number(1, 2, 3)
        await until(lambda: len(server.messages) == 3)
        assert numbers(server.messages) == [1, 2, 3]
        assert server.messages[0].startswith(b"<132>Nov 22 12:00:00 node01 ossec: {")
        await until(lambda: out.count("delivered") == 3)


async def test_a_udp_receiver_that_is_away(files: AlertFiles) -> None:
    port = free_port()
    async with sending(files, port=port) as out:
        files.number(1, 2, 3)
        await until(lambda: out.count("failures"))
        async with datagram_server(port) as (server, _):
            files.number(4)
            await until(lambda: server.messages and numbers(server.messages)[-1] == 4)


async def test_conditions(files: AlertFiles) -> None:
    conditions = AlertConditions(level=7, rules=("5716", "1"), group="pci_dss_10,none", location="(web-3)|x")
    async with syslog_server() as server:
        async with sending(files, port=server.port, protocol="tcp", conditions=conditions):
            files.number(1)
            files.number(2, level=7)
            files.number(3, level=9, location="/y", agent={"id": "004", "name": "db", "ip": "any"})
            files.number(4, level=9)
            await until(lambda: len(server.messages) == 2)
        assert numbers(server.messages) == [2, 4]


async def test_a_receiver_that_restarts_gets_every_alert(files: AlertFiles) -> None:
    async with syslog_server() as server, sending(files, port=server.port, protocol="tcp") as out:
        files.number(1)
        await until(lambda: len(server.messages) == 1)
        await server.close()
        files.number(2, 3)
        await until(lambda: out.count("failures"))
        assert out.follower.waits_for
        await server.open()
        await until(lambda: len(server.messages) == 3)
        await until(lambda: not out.follower.waits_for)
    assert numbers(server.messages) == [1, 2, 3]


async def test_a_kill_neither_loses_nor_skips(files: AlertFiles) -> None:
    async with syslog_server() as server:
        for start in range(0, 500, 100):
            async with sending(files, killed=True, port=server.port, protocol="tcp"):
                files.number(*range(start, start + 100))
                await server.received(start + 50)
        async with sending(files, port=server.port, protocol="tcp"):
            await until(lambda: len(set(numbers(server.messages))) == 500)
    assert list(dict.fromkeys(numbers(server.messages))) == list(range(500)), "in order, perhaps repeated"


async def test_a_receiver_that_does_not_read_delays_itself_only(files: AlertFiles) -> None:
    stuck = asyncio.Event()

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stuck.wait()
        writer.transport.abort()

    hostile = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1)
    port = hostile.sockets[0].getsockname()[1]
    async with (
        syslog_server() as server,
        sending(files, killed=True, port=port, protocol="tcp") as slow,
        sending(files, port=server.port, protocol="tcp", name="other") as other,
    ):
        big = "x" * 50_000
        files.number(*range(200), full_log=big)
        await until(lambda: other.count("delivered") == 200)
        assert slow.count("delivered") < 200
        stuck.set()
    hostile.close()


async def test_tls(files: AlertFiles, certificate: Certificate) -> None:
    tls = TlsFiles(ca_store=str(certificate.file))
    async with syslog_server(certificate.server) as server:
        async with sending(files, port=server.port, protocol="tls", tls=tls) as out:
            files.number(*range(300))
            await until(lambda: out.count("delivered") == 300)
        await until(lambda: len(server.messages) == 300)


async def test_a_receiver_with_a_foreign_certificate_gets_nothing(files: AlertFiles, certificate: Certificate) -> None:
    async with syslog_server(certificate.server) as server:
        async with sending(files, port=server.port, protocol="tls") as out:
            files.number(1)
            await until(lambda: out.count("failures"))
            assert "certificate" in out.follower.waits_for.lower()
        assert server.messages == []
    with pytest.raises(ConfigError):
        sending(files, port=1, protocol="tls", tls=TlsFiles(ca_store="absent.pem"))


@pytest.mark.skipif(shutil.which("rsyslogd") is None, reason="rsyslog is not installed (apt-get install rsyslog)")
@pytest.mark.parametrize("rfc", [3164, 5424])
async def test_rsyslog(files: AlertFiles, tmp_path: Path, rfc: int) -> None:
    port, written = free_port(), tmp_path / "received"
    config = tmp_path / "rsyslog.conf"
    config.write_text(
        'global(maxMessageSize="64k")\nmodule(load="imtcp")\n'
        f'input(type="imtcp" port="{port}" address="127.0.0.1" ruleset="all")\n'
        'template(name="parts" type="string" string="%syslogseverity% %hostname% %programname% %msg%\\n")\n'
        f'ruleset(name="all") {{ action(type="omfile" file="{written}" template="parts") }}\n'
    )
    program = await asyncio.create_subprocess_exec("rsyslogd", "-n", "-f", config, "-i", tmp_path / "pid")
    try:
        async with sending(files, port=port, protocol="tcp", rfc=rfc) as out:
            files.number(*range(50))
            await until(lambda: out.count("delivered") == 50)
            await until(lambda: written.exists() and written.read_bytes().count(b"\n") == 50)
    finally:
        program.terminate()
        await program.wait()
    lines = written.read_bytes().splitlines()
    assert all(one.startswith(b"4 node01 ossec ") for one in lines)
    assert numbers(lines) == list(range(50))
