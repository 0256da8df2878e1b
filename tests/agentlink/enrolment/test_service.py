"""The service over real TLS connections."""

import asyncio
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from secmon.agentlink.enrolment.service import EnrolmentService, Limits
from secmon.agentlink.enrolment.tls import ensure_certificate, server_context
from secmon.agents.registry.enrolment import Refusal, Request, Rules
from secmon.agents.registry.entries import Entry
from secmon.common.accept.limiter import AcceptLimits
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.logfile.warning_limiter import PER_WINDOW
from secmon.common.paths import Paths
from secmon.config.auth import AuthSettings
from tests.agentlink.enrolment.certificates import Authority
from tests.waiting import until

pytestmark = pytest.mark.anyio

FAREWELL = b"ERROR: Unable to add agent"


class Running:
    """A service and clients of it."""

    def __init__(self, service: EnrolmentService, port: int, counters: Counters) -> None:
        self.service, self.port, self.counters = service, port, counters

    async def connect(
        self, *, client: Path | None = None, tune: Callable[[ssl.SSLContext], None] = lambda context: None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if client is not None:
            context.load_cert_chain(client)
        tune(context)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def ask(self, data: bytes, *, client: Path | None = None) -> bytes:
        reader, writer = await self.connect(client=client)
        writer.write(data)
        try:
            return await reader.read()
        finally:
            writer.close()

    def count(self, name: str) -> float:
        return self.counters.snapshot().get(f"authd.{name}", 0)


async def admit(request: Request) -> Entry:
    if request.name == "taken":
        raise Refusal("Duplicate agent name: taken")
    return Entry(4, request.name, request.address, "k" * 64, 0, None, None, 1)


@asynccontextmanager
async def serving(
    folder: Path,
    settings: AuthSettings | None = None,
    *,
    rules: Rules | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Running]:
    paths, settings, counters = Paths(folder), settings or AuthSettings(disabled=False), Counters()
    (folder / "etc").mkdir(exist_ok=True)
    ensure_certificate(paths, settings, SystemClock())
    listening = socket.create_server(("127.0.0.1", 0))
    service = EnrolmentService(
        listening=listening,
        context=server_context(paths, settings),
        rules=rules or Rules(),
        add_agent=admit,
        counters=counters,
        clock=SystemClock(),
        check_host=settings.ssl_verify_host,
        limits=limits,
    )
    service.start()
    try:
        yield Running(service, listening.getsockname()[1], counters)
    finally:
        await service.stop()


async def test_a_key_in_one_line(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        reply = await running.ask(b"OSSEC A:'web-01' V:'v4.8.2' IP:'src'\n")
        assert reply == b"OSSEC K:'004 web-01 127.0.0.1 " + b"k" * 64 + b"'"
        assert running.count("accepted") == 1


async def test_a_refusal_has_two_lines(tmp_path: Path) -> None:
    async with serving(tmp_path) as running:
        assert await running.ask(b"OSSEC A:'taken'\n") == b"ERROR: Duplicate agent name: taken" + FAREWELL
        assert await running.ask(b"HELLO\n") == b"ERROR: Invalid request for new agent" + FAREWELL
        # Bytes that are no UTF-8 come back as they were.
        assert await running.ask(b"OSSEC A:'w\xff'\n") == b"ERROR: Invalid agent name: w\xff" + FAREWELL
        assert running.count("refused") == 3


async def test_refusals_in_the_log_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path) as running:
        for _ in range(PER_WINDOW + 5):
            await running.ask(b"HELLO\n")
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    # A slow machine may need more than one window.
    assert sum("enrolment refused" in one for one in said) < PER_WINDOW + 5
    assert any("refusals" in one and "more warnings" in one for one in said)


async def test_a_request_in_pieces_or_without_an_end(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(read=0.2)) as running:
        reader, writer = await running.connect()
        for piece in (b"OSSEC ", b"A:'web-01'", b"\n"):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).startswith(b"OSSEC K:'004 web-01 any")
        writer.close()
        assert (await running.ask(b"OSSEC A:'web-01'")).startswith(b"OSSEC K:'004 web-01 any")
        assert (await running.ask(b"OSSEC A:'" + b"a" * 80_000)).startswith(b"ERROR: Invalid request")


async def test_a_silent_client_gets_no_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(read=0.05)) as running:
        assert await running.ask(b"") == b""
        assert running.count("silent_connections") == 1
    # Only here: on a busy machine the handshake of a client that does its part takes longer.
    async with serving(tmp_path, limits=Limits(handshake=0.05)) as running:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        await until(lambda: running.count("handshake_failures") == 1)
        writer.close()


async def test_no_tls_below_1_2_unless_negotiated(tmp_path: Path) -> None:
    def old(context: ssl.SSLContext) -> None:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    async with serving(tmp_path) as running:
        with pytest.raises(OSError):
            await running.connect(tune=old)
        await until(lambda: running.count("handshake_failures") == 1)
    async with serving(tmp_path, AuthSettings(disabled=False, ssl_auto_negotiate=True)) as running:
        reader, writer = await running.connect(tune=old)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.1"
        writer.write(b"OSSEC A:'web-01'\n")
        assert (await reader.read()).startswith(b"OSSEC K:'")
        writer.close()


async def test_agents_certificates(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), tmp_path / "other"
    stranger.mkdir()
    settings = AuthSettings(disabled=False, ssl_agent_ca="ca.pem")
    request = b"OSSEC A:'web-01'\n"
    async with serving(tmp_path, settings) as running:
        assert (await running.ask(request, client=authority.client("anybody"))).startswith(b"OSSEC K:'")
        for client in (None, Authority(stranger).client("anybody")):
            with suppress(OSError):  # TLS 1.3 reports this to a client only after its own handshake, if at all
                assert await running.ask(request, client=client) == b""
        await until(lambda: running.count("handshake_failures") == 2)
    async with serving(tmp_path, replace(settings, ssl_verify_host=True)) as running:
        assert await running.ask(request, client=authority.client("anybody")) == b""
        assert running.count("wrong_certificates") == 1
        for client in (authority.client("127.0.0.1"), authority.client("x", address="127.0.0.1")):
            assert (await running.ask(request, client=client)).startswith(b"OSSEC K:'")


async def test_half_open_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    accept = AcceptLimits(total=20, reserved=0, per_address=20)
    async with serving(tmp_path, limits=Limits(accept=accept, handshake=60, read=60, request=60)) as running:
        silent = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(15)]
        half = [await running.connect() for _ in range(15)]
        for _, writer in half:
            writer.write(b"OSSEC A:'")
        assert (await running.ask(b"OSSEC A:'web'\n")).split()[2] == b"web"
        assert running.count("connections.evicted") >= 10
        for _, writer in half:
            writer.transport.abort()
        for each in silent:
            each.close()
        await until(lambda: not running.count("connections.open"))


async def test_clients_beyond_the_places_are_refused_at_once(tmp_path: Path) -> None:
    accept = AcceptLimits(total=2, reserved=0, per_address=2, grace_seconds=60)
    async with serving(tmp_path, limits=Limits(accept=accept)) as running:
        first = [await running.connect() for _ in range(2)]
        with pytest.raises(ConnectionError):
            await running.ask(b"OSSEC A:'c'\n")
        assert running.count("connections.refused") == 1
        for number, (reader, writer) in enumerate(first):
            writer.write(b"OSSEC A:'a%d'\n" % number)
            assert (await reader.read()).split()[2] == b"a%d" % number
            writer.close()
