"""Calls between the daemons of a node: over one connection, with deadlines, cancellation and a daemon that restarts."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
import uvloop
from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, Operation, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import NoParams
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.local_client import LocalClient, _Connection
from secmon.cluster.rpc.local_frames import Kind, pack_frame, pack_seconds
from secmon.cluster.rpc.local_server import MAX_SOCKET_PATH, LocalServer
from secmon.cluster.rpc.wire import MAX_CHUNK_BYTES, pack_result
from secmon.common.clock import SystemClock
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Outcome, Plain, Result
from tests.waiting import until

pytestmark = pytest.mark.anyio

CATALOGUE = Catalogue()


@operation("GET", "/echo", params=NoParams, catalogue=CATALOGUE)
@operation("GET", "/large", params=NoParams, catalogue=CATALOGUE)
@operation("GET", "/fails", params=NoParams, catalogue=CATALOGUE)
@operation("GET", "/waits", params=NoParams, catalogue=CATALOGUE)
@operation("GET", "/elsewhere", params=NoParams, catalogue=CATALOGUE)
@operation("PUT", "/waits", params=NoParams, catalogue=CATALOGUE)
async def nothing(ctx: Context, params: NoParams) -> Plain:
    """What :class:`Daemon` answers instead."""
    return Plain()


LARGE = Outcome(items=["x" * (MAX_CHUNK_BYTES // 2)] * 9)
RELAYED = [*pack_result(Plain(message="from elsewhere"))]


class Daemon:
    """A cluster daemon and a client of its socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "c-internal.sock"
        self.clock = SystemClock()
        self.released = asyncio.Event()
        self.waiting = self.cancelled = 0
        self.deadlines: list[float | None] = []
        self.server = self.build()
        self.client = LocalClient("n1", self.path, self.clock, connect_seconds=0.3)

    def build(self) -> LocalServer:
        service = CallService("n1", CATALOGUE, whole=self.run, part=self.run_part, relay=self.relay)
        return LocalServer(self.path, service, self.clock)

    async def run(self, call: Call) -> Result:
        self.deadlines.append(call.deadline)
        match call.operation.path:
            case "/large":
                return LARGE
            case "/fails":
                raise SecmonError(3022, ids=("n9",), nodes={"n9": "gone"})
            case "/waits":
                self.waiting += 1
                try:
                    await self.released.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
                finally:
                    self.waiting -= 1
        return Plain(data={"request": call.request_id, "client": call.client})

    async def run_part(self, call: Call) -> Result:
        return Plain(message="a part")

    def relay(
        self, operation: Operation, request: pb.ExecuteRequest, deadline: float | None
    ) -> AsyncGenerator[bytes, None] | None:
        async def chunks() -> AsyncGenerator[bytes, None]:
            for chunk in RELAYED:
                yield chunk

        return chunks() if operation.path == "/elsewhere" else None

    async def ask(
        self, path: str, *, method: str = "GET", seconds: float | None = 20, request: str = "r1", part: bool = False
    ) -> Result:
        deadline = None if seconds is None else self.clock.monotonic() + seconds
        call = Call(
            operation=CATALOGUE[f"{method} {path}"], params=NoParams(), identity=local_identity(), request_id=request,
            deadline=deadline, client="10.0.0.1",
        )  # fmt: skip
        return await self.client.execute(call, part=part)

    async def refused(self, path: str, **options: float) -> SecmonError:
        with pytest.raises(SecmonError) as caught:
            await self.ask(path, seconds=options.get("seconds", 20))
        return caught.value


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    made = Daemon(tmp_path)
    await made.server.open()
    yield made
    await made.client.close()
    await made.server.stop(0)


async def test_results_and_errors_cross(daemon: Daemon) -> None:
    assert await daemon.ask("/echo") == Plain(data={"request": "r1", "client": "10.0.0.1"})
    assert await daemon.ask("/echo", part=True) == Plain(message="a part")
    assert await daemon.ask("/large") == structs.replace(LARGE, total=9)
    error = await daemon.refused("/fails")
    assert (error.code, error.ids, error.nodes) == (3022, ("n9",), {"n9": "gone"})


async def test_the_answer_of_another_node_is_passed_on(daemon: Daemon) -> None:
    assert await daemon.ask("/elsewhere") == Plain(message="from elsewhere")
    assert daemon.deadlines == []


async def test_calls_share_a_connection_and_do_not_wait_for_each_other(daemon: Daemon) -> None:
    slow = [asyncio.create_task(daemon.ask("/waits", request=f"s{number}")) for number in range(3)]
    await until(lambda: daemon.waiting == 3)
    answers = await asyncio.gather(*(daemon.ask("/echo", request=f"r{number}") for number in range(20)))
    assert [one.data["request"] for one in answers if isinstance(one, Plain)] == [f"r{n}" for n in range(20)]
    daemon.released.set()
    answers = await asyncio.gather(*slow)
    assert [one.data["request"] for one in answers if isinstance(one, Plain)] == ["s0", "s1", "s2"]


async def test_the_deadline_travels_and_ends_the_call(daemon: Daemon) -> None:
    await daemon.ask("/echo", seconds=None)
    await daemon.ask("/echo", seconds=100)
    assert daemon.deadlines[0] is None
    assert daemon.deadlines[1] == pytest.approx(daemon.clock.monotonic() + 100, abs=5)
    error = await daemon.refused("/waits", seconds=0.1)
    assert (error.code, list(error.nodes)) == (3021, ["n1"])
    await until(lambda: daemon.cancelled == 1)


async def test_a_caller_that_leaves_cancels_the_call(daemon: Daemon) -> None:
    task = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    task.cancel()
    await until(lambda: daemon.cancelled == 1)
    other = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    await daemon.client.close()
    await until(lambda: daemon.cancelled == 2)
    with pytest.raises(SecmonError):
        await other


async def test_a_stop_finishes_the_calls_in_flight_and_refuses_others(daemon: Daemon) -> None:
    task = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    stopping = asyncio.create_task(daemon.server.stop(20))
    await until(lambda: not daemon.path.exists())
    assert (await daemon.refused("/echo")).code == 3012
    daemon.released.set()
    assert isinstance(await task, Plain)
    await stopping
    assert (await daemon.refused("/echo")).code == 3012


async def test_calls_that_do_not_end_are_cut_when_the_daemon_stops(daemon: Daemon) -> None:
    task = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    await daemon.server.stop(0.05)
    with pytest.raises(SecmonError) as caught:
        await task
    assert (caught.value.code, list(caught.value.nodes)) == (3012, ["n1"])
    assert daemon.cancelled == 1


async def test_a_daemon_that_was_restarted_is_found_again(daemon: Daemon) -> None:
    await daemon.ask("/echo")
    await daemon.server.stop(0)
    assert (await daemon.refused("/echo")).code == 3012
    daemon.server = daemon.build()
    await daemon.server.open()
    assert isinstance(await daemon.ask("/echo"), Plain)


async def test_a_call_waits_for_a_daemon_that_restarts_with_another_role(daemon: Daemon) -> None:
    daemon.client = LocalClient("n1", daemon.path, daemon.clock, hold_seconds=60)
    await daemon.server.stop(0)
    waiting = asyncio.create_task(daemon.ask("/echo"))
    await asyncio.sleep(0)
    daemon.server = daemon.build()
    await daemon.server.open()
    assert isinstance(await waiting, Plain)
    daemon.client = LocalClient("n1", daemon.path, daemon.clock, hold_seconds=0.1)
    await daemon.server.stop(0)
    assert (await daemon.refused("/echo")).code == 3012


async def test_a_read_is_repeated_when_the_daemon_ends_before_it_has_answered(daemon: Daemon) -> None:
    daemon.client = LocalClient("n1", daemon.path, daemon.clock, hold_seconds=60)
    reading = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    await daemon.server.stop(0)
    daemon.released.set()
    daemon.server = daemon.build()
    await daemon.server.open()
    assert isinstance(await reading, Plain)
    assert daemon.cancelled == 1


async def test_a_change_is_not_repeated_when_its_answer_is_lost(daemon: Daemon) -> None:
    daemon.client = LocalClient("n1", daemon.path, daemon.clock, hold_seconds=60)
    changing = asyncio.create_task(daemon.ask("/waits", method="PUT"))
    await until(lambda: daemon.waiting == 1)
    await daemon.server.stop(0)
    daemon.server = daemon.build()
    await daemon.server.open()
    with pytest.raises(SecmonError, match=r"3052.*before it had answered") as caught:
        await changing
    assert list(caught.value.nodes) == ["n1"]
    assert daemon.cancelled == 1


async def test_calls_go_to_the_next_daemon_while_the_last_one_finishes(daemon: Daemon) -> None:
    daemon.client = LocalClient("n1", daemon.path, daemon.clock, hold_seconds=60)
    before = asyncio.create_task(daemon.ask("/waits", method="PUT"))
    await until(lambda: daemon.waiting == 1)
    stopping = asyncio.create_task(daemon.server.stop(60))
    held = asyncio.create_task(daemon.ask("/echo"))
    await until(lambda: not daemon.path.exists())
    daemon.server = daemon.build()
    await daemon.server.open()
    assert isinstance(await held, Plain)
    assert not before.done()
    daemon.released.set()
    assert isinstance(await before, Plain)
    await stopping


async def test_what_was_sent_before_the_end_was_heard_is_answered(daemon: Daemon) -> None:
    reader, writer = await asyncio.open_unix_connection(str(daemon.path))
    await reader.readexactly(len(pack_frame(Kind.HELLO, 0)))
    stopping = asyncio.create_task(daemon.server.stop(0))
    await reader.readexactly(len(pack_frame(Kind.BYE, 0)))
    writer.write(
        pack_frame(Kind.CALL, 7, pack_seconds(None) + pb.ExecuteRequest(operation="GET /echo").SerializeToString())
    )
    answer = await reader.readuntil(pack_frame(Kind.END, 7))
    assert pb.ExecuteChunk.FromString(answer[9 : -len(pack_frame(Kind.END, 7))]).failure.code == 3012
    writer.close()
    await stopping


def test_a_connection_that_has_just_broken_takes_no_call() -> None:
    async def call() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            connection = _Connection(reader, writer)
            writer.transport.abort()
            with pytest.raises(ConnectionError):
                await connection.call(b"")
            await connection.close()

    uvloop.run(call())  # the loop of daemons: a write to a closed transport is a RuntimeError there


async def test_a_socket_that_was_removed_is_made_again(daemon: Daemon) -> None:
    waiting = asyncio.create_task(daemon.ask("/waits"))
    await until(lambda: daemon.waiting == 1)
    daemon.path.unlink()
    await daemon.server.tend()
    other = LocalClient("n1", daemon.path, daemon.clock)
    daemon.client, before = other, daemon.client
    assert isinstance(await daemon.ask("/echo"), Plain)
    daemon.released.set()
    assert isinstance(await waiting, Plain), "a call in flight on the old socket"
    await before.close()


async def test_a_daemon_that_hangs_or_is_absent_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    client = LocalClient("n1", path, SystemClock(), connect_seconds=0.1)
    with pytest.raises(SecmonError, match="3012"):
        await client.send(pb.ExecuteRequest(), None)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(path))
        hung.listen()
        with pytest.raises(SecmonError, match=r"3020.*the cluster daemon of this node"):
            await client.send(pb.ExecuteRequest(), None)


@pytest.mark.parametrize("data", [b"", bytes(8) + b"\xff"], ids=["no time limit", "no request"])
async def test_what_is_no_call_is_refused_and_the_connection_stays_open(daemon: Daemon, data: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(str(daemon.path))
    writer.write(pack_frame(Kind.CALL, 7, data))
    greeting = len(pack_frame(Kind.HELLO, 0))
    await reader.readexactly(greeting)
    answer = await reader.readuntil(pack_frame(Kind.END, 7))
    assert pb.ExecuteChunk.FromString(answer[9 : -len(pack_frame(Kind.END, 7))]).failure.code == 3036
    writer.close()


def test_a_path_that_is_too_long_for_a_socket_is_a_clear_error() -> None:
    path = Path("/" + "x" * MAX_SOCKET_PATH)
    with pytest.raises(ConfigError, match="at most 106 bytes"):
        LocalServer(path, CallService("n1", CATALOGUE, whole=_never, part=_never), SystemClock())


async def _never(call: Call) -> Result:
    raise AssertionError(call)
