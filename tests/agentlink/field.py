"""A field for the link: a server on free ports in a temporary folder, and agents of the smallest kind."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import insert, select

from secmon.agentlink.control import Identity
from secmon.agentlink.ports import Ports
from secmon.agentlink.receiving import Hooks
from secmon.agentlink.server import AgentLinkServer
from secmon.agentlink.settings import LinkSettings
from secmon.agentlink.shared import Assigner
from secmon.agents.groups.first_groups import assign_first_groups
from secmon.agents.registry.registry import New, add
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore, advance
from secmon.agents.wakeups import wake
from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import AgentCipher, Cipher, Opened
from secmon.agents.wire.frames import PING, Unframer, frame, join_id
from secmon.agents.wire.keepalive import build
from secmon.agents.wire.keys import AgentKey, agent_id
from secmon.common.clock import Clock, SystemClock
from secmon.common.paths import Paths
from secmon.config.remote import RemoteBlock
from secmon.journal.journal import JournalReader
from tests.waiting import LIMIT_SECONDS, until

KEY = "0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
ACK = b"#!-agent ack "
STARTUP = b'#!-agent startup {"version":"v4.8.2"}'
SHUTDOWN = b"#!-agent shutdown "
SYSTEM = "Linux |web-01 |5.15 |#101 |x86_64 [Ubuntu|ubuntu: 22.04.3 LTS (Jammy Jellyfish)]"


def keepalive(merged_sum: str = "x", **more: Any) -> bytes:
    return build(system=SYSTEM, version="Wazuh v4.8.2", merged_sum=merged_sum, **more).encode()


class FieldAgent:
    """One agent's end of one connection, TCP or UDP."""

    def __init__(self, key: AgentKey, *, cipher: Cipher = Cipher.AES, prefix: bool = True) -> None:
        self.key = key
        self.cipher = cipher
        self.prefix = prefix
        self.counter = Counter()
        self._codec = AgentCipher(key)
        self._frames = Unframer()
        self._payloads: list[bytes] = []
        self.socket: socket.socket
        self.stream = True

    async def connect(self, port: int, *, stream: bool = True, host: str = "127.0.0.1") -> "FieldAgent":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.stream = stream
        self.socket = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self.socket, (host, port))
        return self

    def sealed(self, text: bytes) -> bytes:
        self.counter = self.counter.next()
        sealed = self._codec.seal(text, self.cipher, self.counter)
        return join_id(self.key.id, sealed) if self.prefix else sealed

    async def send(self, *texts: bytes) -> None:
        for text in texts:
            await self.raw(self.sealed(text))

    async def raw(self, payload: bytes) -> None:
        loop = asyncio.get_running_loop()
        if self.stream:
            await loop.sock_sendall(self.socket, frame(payload))
        else:
            await loop.sock_sendto(self.socket, payload, self.socket.getpeername())

    async def payload(self, *, seconds: float = LIMIT_SECONDS) -> bytes:
        """The next payload; EOFError when the server has closed."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            while not self._payloads:
                data = await loop.sock_recv(self.socket, 65536)
                if not self.stream:
                    return data
                if not data:
                    raise EOFError
                self._payloads += self._frames.feed(data)
        return self._payloads.pop(0)

    async def opened(self, *, seconds: float = LIMIT_SECONDS) -> Opened:
        return self._codec.open(await self.payload(seconds=seconds))

    async def receive(self, *, seconds: float = LIMIT_SECONDS) -> bytes:
        """The next text."""
        return (await self.opened(seconds=seconds)).text

    async def start(self) -> "FieldAgent":
        """Start up, and be acknowledged."""
        await self.send(STARTUP)
        assert await self.receive() == ACK
        return self

    async def beat(self, merged_sum: str = "x", **more: Any) -> None:
        """One keepalive, acknowledged."""
        await self.send(keepalive(merged_sum, **more))
        assert await self.receive() == ACK

    async def closed_by_server(self) -> bool:
        """Wait for the end; False when something else comes."""
        try:
            await self.payload()
        except (EOFError, ConnectionError):
            return True
        return False

    async def ping(self) -> bytes:
        await self.raw(PING)
        return await self.payload()

    def close(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()


class Field:
    """A running server with its folder."""

    def __init__(self, paths: Paths, store: AgentStore) -> None:
        self.paths = paths
        self.store = store
        self.server: AgentLinkServer
        self.reader = JournalReader(paths.events, "test")
        self.wanted: list[tuple[str, str]] = []
        self.reports: list[tuple[int, bytes]] = []
        self._agents: list[FieldAgent] = []

    @property
    def tcp(self) -> int:
        return int(self.server._ports.tcp[0][1].getsockname()[1])

    @property
    def udp(self) -> int:
        return int(self.server._ports.udp[0][1].getsockname()[1])

    async def enrol(self, name: str = "web-01", *, address: str = "any", groups: tuple[str, ...] = ()) -> AgentKey:
        """An agent in the registry that the link knows."""
        with self.store.write() as connection:
            entry = add(connection, New(name=name, address=address, groups=groups), now=1).entry
        await self.server.registry.refresh()
        return AgentKey(agent_id(entry.id), name, address, entry.internal_key)

    async def enrol_all(self, *names: str, groups: tuple[str, ...] = ()) -> list[AgentKey]:
        """As :meth:`enrol`, for many."""
        with self.store.write() as connection:
            made = [add(connection, New(name=name, groups=groups), now=1).entry for name in names]
        await self.server.registry.refresh()
        return [AgentKey(agent_id(entry.id), entry.name, "any", entry.internal_key) for entry in made]

    async def agent(self, key: AgentKey | None = None, *, stream: bool = True, **more: Any) -> FieldAgent:
        """An agent that is connected and has sent nothing yet."""
        agent = FieldAgent(key or await self.enrol(), **more)
        self._agents.append(agent)
        return await agent.connect(self.tcp if stream else self.udp, stream=stream)

    async def row(self, key: AgentKey) -> Mapping[str, Any]:
        """The agent's row, after everything so far is written."""
        await self.server.states.flush()
        with self.store.read() as connection:
            return dict(connection.execute(select(agents).where(agents.c.id == int(key.id))).one()._mapping)

    async def labels(self, key: AgentKey) -> list[list[str]]:
        found: list[list[str]] = msgspec.json.decode((await self.row(key))["labels"])
        return found

    async def events(self, count: int) -> list[bytes]:
        """The next events of the journal."""
        found: list[bytes] = []

        def read() -> bool:
            found.extend(event for block in self.reader.read() for event in block.events)
            return len(found) >= count

        await until(read, what=f"{count} events")
        self.reader.commit(self.reader.next)
        return found

    def write_merged(self, group: str, data: bytes) -> None:
        """As the builder does."""
        folder = self.paths.shared / group
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".new"
        aside.write_bytes(data)
        aside.rename(folder / "merged.mg")
        wake(self.paths.merged_files_socket)

    async def close(self) -> None:
        for agent in self._agents:
            agent.close()
        await self.server.stop()
        self.reader.close()


@asynccontextmanager
async def field(
    folder: Path,
    *,
    clock: Clock | None = None,
    protocols: tuple[str, ...] = ("tcp", "udp"),
    block: RemoteBlock | None = None,
    blocks: tuple[RemoteBlock, ...] = (),
    assigner: Assigner | None = None,
    **settings: Any,
) -> AsyncIterator[Field]:
    """A server with the settings given, and a master's way of assigning groups."""
    paths = Paths(folder)
    paths.sockets.mkdir(parents=True, exist_ok=True)
    store = AgentStore(paths.agents_db, durable=False)
    secure = block or RemoteBlock(port=0, protocols=protocols, local_ip="127.0.0.1")
    made = LinkSettings(blocks=(secure, *blocks), **settings)
    here = Field(paths, store)

    async def assign(wanted: Mapping[int, str]) -> Mapping[int, str]:
        return await asyncio.to_thread(assign_first_groups, store, paths, wanted)

    here.server = AgentLinkServer(
        made,
        Ports(made),
        paths=paths,
        clock=clock or SystemClock(),
        store=store,
        identity=Identity("host-1", "node01"),
        node="node01",
        assigner=assigner or assign,
        hooks=Hooks(
            missing_key=lambda kind, value: here.wanted.append((kind, value)),
            report=lambda number, payload: here.reports.append((number, payload)),
        ),
    )
    await here.server.start()
    try:
        yield here
    finally:
        await here.close()
        store.close()


def many(store: AgentStore, count: int) -> list[AgentKey]:
    """Agents in bulk, all with the same key."""
    keys = [AgentKey(agent_id(number), f"agent-{number}", "any", KEY) for number in range(1, count + 1)]
    with store.write() as connection:
        rows = [
            {"id": int(one.id), "name": one.name, "register_ip": "any", "internal_key": KEY, "date_add": 1}
            for one in keys
        ]
        revision = advance(connection, "revision")
        connection.execute(insert(agents), [row | {"revision": revision} for row in rows])
    return keys
