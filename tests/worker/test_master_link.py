"""The worker's link, as its listeners see it."""

from pathlib import Path

import pytest

from secmon.cluster.lease import LeaseReader
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.worker.link_listener import Link
from tests.cluster_kit import ClusterKit, Recorder, cluster
from tests.waiting import until

pytestmark = pytest.mark.anyio


class _Listener:
    """Remembers; ``failures`` calls of ``connected`` fail first."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.events: list[str] = []
        self.messages: list[pb.MasterMessage] = []

    async def connected(self, link: Link, welcome: pb.Welcome) -> None:
        assert link.channel is not None
        self.events.append("connected")
        if self.failures:
            self.failures -= 1
            raise SecmonError(3045, "the first comparison failed")

    async def received(self, link: Link, message: pb.MasterMessage) -> None:
        if message.HasField("security"):
            self.messages.append(message)

    async def disconnected(self, reason: str) -> None:
        self.events.append(f"disconnected: {reason}")


async def test_listeners_are_called_in_order_and_messages_are_sent_both_ways(tmp_path: Path) -> None:
    kit, listener, recorder = ClusterKit(tmp_path), _Listener(), Recorder()
    try:
        await kit.start_master()
        kit.master.sessions.listeners.append(recorder)
        worker = kit.build_worker("alpha")
        worker.link.listeners.append(listener)
        await worker.start()
        await kit.joined("alpha")
        session = kit.master.sessions.get("alpha")
        assert session is not None
        for revision in range(1, 101):
            session.send(pb.MasterMessage(security=pb.SecurityPush(revision=revision)))
            worker.link.send(pb.WorkerMessage(security_ack=pb.SecurityAck(position=pb.Position(revision=revision))))
        await until(lambda: len(listener.messages) == len(recorder.messages) == 100)
        assert [message.security.revision for message in listener.messages] == list(range(1, 101))
        assert [message.security_ack.position.revision for message in recorder.messages] == list(range(1, 101))
        session.close("for the test")
        await until(lambda: listener.events.count("connected") == 2)
        assert listener.events == ["connected", "disconnected: the master: for the test", "connected"]
        assert recorder.joins == ["alpha", "alpha"]
    finally:
        await kit.stop()


async def test_a_failing_listener_ends_the_session_but_not_the_link(tmp_path: Path) -> None:
    kit, listener = ClusterKit(tmp_path), _Listener(failures=2)
    try:
        await kit.start_master()
        worker = kit.build_worker("alpha")
        worker.link.listeners.append(listener)
        await worker.start()
        await until(lambda: listener.events.count("connected") == 3)
        assert listener.events[1] == "disconnected: internal error, see this node's log"
        await kit.joined("alpha")
    finally:
        await kit.stop()


async def test_heartbeats_extend_the_lease(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        reader = LeaseReader(kit.paths("alpha").lease, SystemClock())
        await until(lambda: reader.remaining() > 29)
        reader.close()


async def test_a_worker_waits_for_a_master_that_is_not_there_yet(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        ports = {"port": kit.master.port, "enrol_port": kit.master.enrol_port}
        await kit.masters.pop().stop(grace=0)
        worker = await kit.start_worker("alpha", port=ports["port"], enrol_port=ports["enrol_port"])
        await until(lambda: worker.link.reason.startswith("3023"))
        assert worker.link.refusal is None
        assert worker.link.members() == ()
        await kit.start_master(listen_port=ports["port"], enrol_port=ports["enrol_port"])
        await kit.joined("alpha")
