"""A worker joins, stays and works over links that are slow and lossy: certificate, session, files, states, calls."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from secmon.cluster.lease import LeaseReader
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.master_client import MasterClient
from secmon.daemons.master_role import MasterRole
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.worker_role import WorkerRole
from tests.daemons.inprocess import daemon, install_master, install_worker, ports_of, short_folder
from tests.slowlink import Quality, SlowLink
from tests.waiting import until

pytestmark = pytest.mark.anyio
DEFAULTS = {"heartbeat_ms": 1000, "heartbeat_misses": 3, "security_lease": 30, "reconnect_max_ms": 4000}
QUALITIES = {
    "distant": (Quality(delay=0.2), 2_000_000),
    "narrow": (Quality(delay=0.05, bandwidth=100_000), 800_000),
    "distant and lossy": (Quality(delay=0.5, loss=0.1), 20_000),
}
"""The network, and bytes that are replicated over it."""


@pytest.mark.parametrize("quality", QUALITIES)
async def test_a_worker_works_over_a_slow_link(quality: str) -> None:
    network, size = QUALITIES[quality]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(short_folder())
        master = install_master(folder, **DEFAULTS)
        links = {name: await SlowLink(port, network).start() for name, port in ports_of(master).items()}
        for link in links.values():
            stack.push_async_callback(link.stop)
        worker = install_worker(folder, **{name: link.port for name, link in links.items()}, **DEFAULTS)
        content = os.urandom(size)
        (master.paths.shared / "default" / "before.bin").write_bytes(content)
        here = (await stack.enter_async_context(daemon(master, "secmon-clusterd"))).daemon.role  # type: ignore[attr-defined]
        there = (await stack.enter_async_context(daemon(worker, "secmon-clusterd"))).daemon.role  # type: ignore[attr-defined]
        assert isinstance(here, MasterRole)
        assert isinstance(there, WorkerRole)
        await until(there.cluster.link.connected.is_set, what="joined")
        session = here.cluster.sessions.get("worker")
        lease = LeaseReader(worker.paths.lease, SystemClock())
        stack.callback(lease.close)
        await _files(worker.paths.shared / "default" / "before.bin", content)
        await until(lambda: there.security.position().revision == here.security.position().revision)
        await until(lambda: lease.remaining() > 0, what="the lease")
        (master.paths.shared / "default" / "later.txt").write_bytes(b"a delta")
        asking = asyncio.create_task(_ask(worker.paths))
        await _files(worker.paths.shared / "default" / "later.txt", b"a delta")
        assert await asking == {}
        assert here.cluster.sessions.get("worker") is session, "one session from the beginning to the end"
        assert lease.remaining() > 0


async def test_heartbeats_pass_the_first_synchronization_on_a_narrow_link() -> None:
    """2,000 files over 64 kbit/s and a round trip of 1 s, five times as fast: link, heartbeats and lease alike.

    Not faster: a busy host holds up processes for longer than a silence may last then.
    """
    network = Quality(delay=0.1, bandwidth=40_000)
    timing = {"heartbeat_ms": 200, "heartbeat_misses": 3, "security_lease": 6, "reconnect_max_ms": 800}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(short_folder())
        master = install_master(folder, **timing)
        links = {name: await SlowLink(port, network).start() for name, port in ports_of(master).items()}
        for link in links.values():
            stack.push_async_callback(link.stop)
        worker = install_worker(folder, **{name: link.port for name, link in links.items()}, **timing)
        group = master.paths.shared / "default"
        contents = {f"a-file-of-the-group-{number:04}.conf": os.urandom(50) for number in range(2000)}
        for name, content in contents.items():
            (group / name).write_bytes(content)
        here = (await stack.enter_async_context(daemon(master, "secmon-clusterd"))).daemon.role  # type: ignore[attr-defined]
        there = (await stack.enter_async_context(daemon(worker, "secmon-clusterd"))).daemon.role  # type: ignore[attr-defined]
        await until(there.cluster.link.connected.is_set, what="joined")
        session = here.cluster.sessions.get("worker")
        lease = LeaseReader(worker.paths.lease, SystemClock())
        stack.callback(lease.close)
        await until(lambda: lease.remaining() > 0, what="the lease")
        least = lease.remaining()

        def synchronized() -> bool:
            nonlocal least
            least = min(least, lease.remaining())
            return here.cluster.sessions.get("worker") is not session or there.files.position() == here.files.position()

        await until(synchronized, what="all files replicated")
        assert here.cluster.sessions.get("worker") is session, f"the session ended: {there.cluster.link.reason}"
        copies = worker.paths.shared / "default"
        assert {name: (copies / name).read_bytes() for name in contents} == contents
        assert least > 0


async def _files(path: Path, content: bytes) -> None:
    await until(lambda: path.exists() and path.read_bytes() == content, seconds=120, what=f"{path} replicated")


async def _ask(paths: Paths) -> object:
    """What the agents' link asks of the master; as it does, until there is an answer."""
    node = open_node(read_installation(paths))
    calls = MasterClient(node, "secmon-remoted")
    try:
        while True:
            try:
                return await calls.call("PUT /internal/agents/first-groups", {"agents": [], "sums": []})
            except SecmonError as error:
                if error.code not in (3021, 3023):
                    raise
    finally:
        await calls.close()
        node.security.close()
        node.agents.close()
