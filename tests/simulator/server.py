"""A server in miniature, on real sockets: it receives and acknowledges messages of agents, and sends those that a test
gives it.
"""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import md5
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import AgentCipher, Cipher
from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.frames import Unframer, frame, split_id
from secmon.agents.wire.keys import AgentKey, agent_id
from secmon.simulator import Server
from secmon.simulator.options import Transport
from tests.waiting import LIMIT_SECONDS, until

HOST = "127.0.0.1"


class Peer:
    """Where an agent is connected."""

    def __init__(self, transport: asyncio.BaseTransport, address: object = None) -> None:
        """``address`` is that of an agent that sends datagrams."""
        self._transport, self.address = transport, address

    def send(self, payload: bytes) -> None:
        if self.address is None:
            cast(asyncio.Transport, self._transport).write(frame(payload))
        else:
            cast(asyncio.DatagramTransport, self._transport).sendto(payload, cast(tuple[str, int], self.address))

    def close(self) -> None:
        if self.address is None:
            self._transport.close()


@dataclass
class Conversation:
    """The messages of one agent, and the path of replies to it."""

    key: AgentKey
    cipher: Cipher = Cipher.AES
    peer: Peer | None = None
    texts: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sealer = AgentCipher(self.key)

    def said(self, start: bytes) -> list[bytes]:
        """Texts that begin so."""
        return [text for text in self.texts if text.startswith(start)]

    @property
    def keepalives(self) -> list[str]:
        """Without marker."""
        return [text[3:].decode() for text in self.texts if text.startswith(b"#!-") and b"merged.mg\n" in text]


class ScriptedServer:
    """Serves TCP, UDP and enrolment on free ports of the loopback interface."""

    def __init__(self) -> None:
        self.agents: dict[str, Conversation] = {}
        self.acknowledges = True
        self.refuses_startup = False
        self.loses = 0
        """Datagrams of agents that get lost, from now on."""
        self.bad: list[str] = []
        """Reasons of messages that were refused."""
        self.connections = 0
        self.requests: list[str] = []
        """Of enrolment."""
        self.reply = ""
        """To enrolments, in place of a key."""
        self._answers: dict[tuple[str, bytes], asyncio.Future[bytes]] = {}
        self._acked: dict[bytes, int] = defaultdict(int)
        self._counter, self._requests = Counter(), 0
        self._open: set[Peer] = set()
        self._servers: list[asyncio.Server] = []
        self._tcp: asyncio.Server | None = None
        self._udp: asyncio.DatagramTransport | None = None
        self.port = self.udp_port = self.enrolment_port = 0

    def server(self, transport: Transport = "tcp") -> Server:
        return Server(HOST, self.port if transport == "tcp" else self.udp_port, self.enrolment_port, transport)

    def add(self, *names: str, address: str = "any") -> list[AgentKey]:
        """Keys of new agents."""
        return [self._add(name, address) for name in names]

    def _add(self, name: str, address: str = "any") -> AgentKey:
        number = len(self.agents) + 1
        key = AgentKey(agent_id(number), name, address, md5(name.encode()).hexdigest() * 2)
        self.agents[key.id] = Conversation(key)
        return key

    # What a test does

    def tell(self, agent: str, text: bytes) -> None:
        """Send one text to an agent that is connected."""
        conversation = self.agents[agent]
        assert conversation.peer is not None
        self._counter = self._counter.next()
        conversation.peer.send(conversation.sealer.seal(text, conversation.cipher, self._counter))

    def push(self, agent: str, merged: bytes, *, sum_: str = "", name: str = "merged.mg") -> str:
        """Send a group file; the announced sum."""
        announced = sum_ or md5(merged).hexdigest()
        self.tell(agent, f"#!-up file {announced} {name}\n".encode())
        for at in range(0, len(merged), 900):
            self.tell(agent, merged[at : at + 900])
        self.tell(agent, b"#!-close file ")
        return announced

    async def ask(self, agent: str, target: str, payload: bytes, *, repeats: int = 1) -> bytes:
        """The answer to a request."""
        self._requests += 1
        counter = b"%x" % (0xBEEF0000 + self._requests)
        answer = self._answers[agent, counter] = asyncio.get_running_loop().create_future()
        for _ in range(repeats):
            self.tell(agent, b"#!-req %b %b %b" % (counter, target.encode(), payload))
        return await asyncio.wait_for(answer, LIMIT_SECONDS)

    def acks(self) -> int:
        """How often agents acknowledged requests."""
        return sum(self._acked.values())

    def disconnect(self) -> None:
        """Close all connections; agents may connect again."""
        for peer in list(self._open):
            peer.close()

    async def go_away(self) -> None:
        """Stop listening on TCP and close all connections."""
        assert self._tcp is not None
        self._tcp.close()
        self.disconnect()
        await self._tcp.wait_closed()

    async def come_back(self) -> None:
        loop = asyncio.get_running_loop()
        self._tcp = await loop.create_server(lambda: _Stream(self), HOST, self.port)

    async def heard(self, agent: str, start: bytes, count: int = 1) -> bytes:
        """Wait for a text that begins so; the ``count``-th one."""
        await until(lambda: len(self.agents[agent].said(start)) >= count, what=f"{start!r} from {agent}")
        return self.agents[agent].said(start)[count - 1]

    # What it hears

    def take(self, payload: bytes, peer: Peer) -> bool:
        """Handle a payload; whether the connection may stay."""
        try:
            number, sealed = split_id(payload)
            conversation = self.agents.get(number) if number else self._only_fixed()
            if conversation is None:
                raise MessageError("auth")
            opened = conversation.sealer.open(sealed)
        except MessageError as error:
            self.bad.append(error.reason)
            return False
        conversation.cipher = opened.cipher
        conversation.texts.append(opened.text)
        if opened.text.startswith(b"#!-"):
            conversation.peer = peer
            self._control(conversation, opened.text[3:])
        return True

    def _only_fixed(self) -> Conversation | None:
        found = [each for each in self.agents.values() if each.key.address != "any"]
        return found[0] if found else None

    def _control(self, conversation: Conversation, text: bytes) -> None:
        agent = conversation.key.id
        if text.startswith(b"req "):
            _, counter, answer = text.split(b" ", 2)
            if answer == b"ack":
                self._acked[counter] += 1
                return
            waiting = self._answers.get((agent, counter))
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
            if conversation.peer is not None and conversation.peer.address is not None:
                self.tell(agent, b"#!-req %b ack" % counter)
        elif text.startswith(b"agent startup ") and self.refuses_startup:
            self.tell(agent, b'#!-err {"message":"no"}')
        elif self.acknowledges and text != b"agent shutdown ":
            self.tell(agent, b"#!-agent ack ")

    async def _enrol(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readline()).decode()
        self.requests.append(request)
        if self.reply:
            writer.write(self.reply.encode())
        else:
            key = self._add(request.split("'")[1])
            writer.write(f"OSSEC K:'{key.line}'".encode())
        writer.close()

    # Life

    async def start(self, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        self._tcp = await loop.create_server(lambda: _Stream(self), HOST, 0)
        self.port = self._tcp.sockets[0].getsockname()[1]
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), (HOST, 0))
        self._udp = transport
        self.udp_port = transport.get_extra_info("sockname")[1]
        enrolment = await asyncio.start_server(self._enrol, HOST, 0, ssl=tls)
        self.enrolment_port = enrolment.sockets[0].getsockname()[1]
        self._servers.append(enrolment)

    async def stop(self) -> None:
        await self.go_away()
        for server in self._servers:
            server.close()
            await server.wait_closed()
        assert self._udp is not None
        self._udp.close()
        await asyncio.sleep(0)

    def opened(self, peer: Peer) -> None:
        self._open.add(peer)
        self.connections += 1

    def closed(self, peer: Peer) -> None:
        self._open.discard(peer)


class _Stream(asyncio.Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self._server, self._unframer = server, Unframer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer = Peer(self._transport)
        self._server.opened(self._peer)

    def data_received(self, data: bytes) -> None:
        for payload in self._unframer.feed(data):
            if not self._server.take(payload, self._peer):
                self._transport.close()
        if self._unframer.broken:
            self._server.bad.append(self._unframer.broken)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self._peer)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        if self._server.loses:
            self._server.loses -= 1
            return
        self._server.take(data, Peer(self._transport, addr))


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's context with a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "scripted")])
    now = datetime(2025, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "scripted.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@asynccontextmanager
async def scripted(folder: Path) -> AsyncIterator[ScriptedServer]:
    """A running server."""
    server = ScriptedServer()
    await server.start(certificate(folder))
    try:
        yield server
    finally:
        await server.stop()
