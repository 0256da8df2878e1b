"""An attacker between a worker and the master who ends TLS on both sides and passes every byte on."""

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from secmon.cluster.rpc import certificates
from secmon.cluster.rpc.certificates import NodeCredentials, PeerIdentity
from secmon.common.clock import SystemClock
from tests.cluster_kit import KEY, ClusterKit, cluster
from tests.waiting import until

pytestmark = pytest.mark.anyio


def false_master() -> NodeCredentials:
    """What anybody can make: a certificate with the master's names, of an authority of his own."""
    now, key = SystemClock().now(), certificates.new_key()
    authority_key, authority = certificates.new_authority("test", now)
    certificate = certificates.sign_node(
        x509.load_pem_x509_certificate(authority),
        certificates.load_key(authority_key),
        key.public_key(),
        PeerIdentity("master", str(uuid.uuid4()), is_master=True),
        now,
        timedelta(days=1),
    )
    return NodeCredentials(certificates.key_pem(key), certificate, authority)


class TlsProxy:
    """Shows ``shown`` to clients, and itself as that node to the master.

    ``passed`` connections at first are passed on as they come, TLS and all.
    """

    def __init__(self, folder: Path, target: int, shown: NodeCredentials, *, passed: int = 0) -> None:
        self._target, self._passed = target, passed
        pair = folder / "proxy.pem"
        pair.write_bytes(shown.key + shown.certificate)
        self._inward, self._outward = (
            ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
        self._outward.check_hostname = False
        self._outward.verify_mode = ssl.CERT_NONE
        for context in (self._inward, self._outward):
            context.load_cert_chain(pair)
            context.set_alpn_protocols(["h2"])
        self.read = bytearray()
        """What the worker said, in clear."""
        self.refused = 0
        """Connections whose TLS the worker did not go through with."""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        passing, self._passed = self._passed > 0, self._passed - 1
        try:
            if not passing:
                await writer.start_tls(self._inward)
            there, out = await asyncio.open_connection(
                "127.0.0.1", self._target, ssl=None if passing else self._outward
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(self._relay(reader, out, None if passing else self.read))
                group.create_task(self._relay(there, writer, None))
        except (OSError, ssl.SSLError):
            self.refused += 1
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, into: bytearray | None) -> None:
        with suppress(OSError, ssl.SSLError):
            while data := await source.read(65_536):
                if into is not None:
                    into += data
                sink.write(data)
                await sink.drain()
        sink.transport.abort()


@asynccontextmanager
async def between(folder: Path, target: int, shown: NodeCredentials, *, passed: int = 0) -> AsyncIterator[TlsProxy]:
    proxy = TlsProxy(folder, target, shown, passed=passed)
    server = await proxy.start()
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()


def credentials_of(kit: ClusterKit, name: str) -> NodeCredentials:
    [worker] = (one for one in kit.workers if one.settings.node_name == name)
    assert worker.keystore.current is not None
    return worker.keystore.current


async def test_a_relayed_proof_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit, between(tmp_path, kit.master.enrol_port, false_master()) as proxy:
        worker = await kit.start_worker("alpha", enrol_port=proxy.port)
        await until(lambda: worker.link.refusal)
        assert worker.link.refusal is not None
        assert worker.link.refusal.code == 3025
        assert worker.keystore.current is None
        assert [one["code"] for one in kit.master.refusals.items()] == [3025], "the master had the whole request"
        assert KEY not in proxy.read
        assert kit.master.sessions.get("alpha") is None


async def test_a_relayed_certificate_of_the_master_is_useless_without_its_key(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as kit,
        between(tmp_path, kit.master.enrol_port, false_master(), passed=1) as proxy,
    ):
        worker = await kit.start_worker("alpha", enrol_port=proxy.port)
        await until(lambda: "enrolment at" in worker.link.reason)
        assert worker.keystore.current is None
        assert proxy.read == b""
        assert kit.master.refusals.items() == []


@pytest.mark.parametrize("shown", ["a certificate of his own", "that of another worker"])
async def test_a_worker_joins_the_master_only(tmp_path: Path, shown: str) -> None:
    async with cluster(tmp_path, "alpha", "beta") as kit:
        own = false_master() if shown == "a certificate of his own" else credentials_of(kit, "beta")
        before = credentials_of(kit, "alpha").key
        await kit.workers.pop(0).stop(grace=0)
        await until(lambda: kit.master.sessions.get("alpha") is None)
        async with between(tmp_path, kit.master.port, own) as proxy:
            worker = await kit.start_worker("alpha", port=proxy.port)
            # After some refused sessions it enrols again, at the master itself, and goes on refusing.
            await until(lambda: worker.keystore.current is not None and worker.keystore.current.key != before)
            refused = proxy.refused
            await until(lambda: proxy.refused > refused)
            assert not worker.link.connected.is_set()
            assert proxy.read == b"", "nothing was said to him"
            assert kit.master.sessions.get("alpha") is None
        assert kit.master.sessions.get("beta") is not None
