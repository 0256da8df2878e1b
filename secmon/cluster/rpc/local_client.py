"""The cluster daemon of this node, as its other daemons and the command line reach it."""

import asyncio
import itertools
import socket as sockets
from pathlib import Path

from secmon.cluster.call import Call
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.held_calls import HeldCalls, is_read
from secmon.cluster.rpc.local_frames import CallFrame, Kind, pack_frame, pack_seconds, read_frames
from secmon.cluster.rpc.spent import HANDOVER, passage
from secmon.cluster.rpc.wire import ResultReader, pack_call
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.security.authentication_error import AuthenticationError

CONNECT_SECONDS = 5.0
"""Time for a connection: a daemon that runs takes one at once, one that hangs does not."""


class LocalClient:
    """Implements ``cluster.node.Peer``. Connects when it is used, and again after the daemon has restarted."""

    def __init__(
        self,
        name: str,
        socket: Path,
        clock: Clock,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        hold_seconds: float = 0.0,
        counters: Counters | None = None,
    ) -> None:
        """``name``: of this node, for errors. ``hold_seconds``: for which calls wait for a daemon or a master."""
        self._name = name
        self._socket = socket
        self._clock = clock
        self._connect_seconds = connect_seconds
        self._held = HeldCalls(clock, counters or Counters(), seconds=hold_seconds)
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None

    async def execute(self, call: Call, *, part: bool) -> Result:
        """See ``cluster.node.Peer``; raises 3012 or 3020 when the daemon cannot be asked, 3052 when it has ended before
        it had answered what is not a read."""
        return await self.send(pack_call(call, part=part), call.deadline)

    async def send(self, request: pb.ExecuteRequest, deadline: float | None) -> Result:
        """As :meth:`execute`, for a request that is packed already."""
        return await self._held.run(lambda: self._send(request, deadline), deadline)

    async def _send(self, request: pb.ExecuteRequest, deadline: float | None) -> Result:
        limit = None if deadline is None else max(0.001, deadline - self._clock.monotonic())
        data = pack_seconds(limit) + request.SerializeToString()
        try:
            async with asyncio.timeout(limit):
                connection = self._connection
                if connection is None or connection.leaving:
                    connection = await self._connected()
                return await connection.call(data)
        except TimeoutError:
            raise self._named(SecmonError(3021)) from None
        except _AnswerLost:
            unknown = SecmonError(3052, "the cluster daemon of this node has ended before it had answered")
            raise self._named(local_failure(self._socket) if is_read(request) else unknown) from None
        except OSError:
            raise self._named(local_failure(self._socket)) from None

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> "_Connection":
        """A connection to a daemon that does not hang. Raises OSError; what is no connection in time is 3020."""
        async with self._connecting:
            if self._connection is None or self._connection.leaving:
                try:
                    async with asyncio.timeout(self._connect_seconds):
                        self._connection = await _connect(self._socket)
                except TimeoutError as error:
                    raise ConnectionError("no greeting in time") from error
            return self._connection

    def _named(self, failure: SecmonError) -> SecmonError:
        failure.nodes = {self._name: failure.message}
        return failure


async def _connect(socket: Path) -> "_Connection":
    reader, writer = await asyncio.open_unix_connection(str(socket.absolute()))
    connection = _Connection(reader, writer)
    try:
        await connection.greeted
    except BaseException:
        await connection.close()
        raise
    return connection


class _AnswerLost(Exception):
    """The connection has ended under a call, which may have been executed."""


class _Answer:
    """An answer on its way."""

    def __init__(self) -> None:
        self.reader = ResultReader()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _Connection:
    """One connection with the calls in flight on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.leaving = False
        """It is lost, or the daemon stops: for no further call."""
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer = writer
        self._numbers = itertools.count(1)
        self._answers: dict[int, _Answer] = {}
        self._reading = asyncio.create_task(self._read(reader), name="answers of the cluster daemon")

    async def call(self, data: bytes) -> Result:
        """The result of a call. Raises the error that the answer carries, _AnswerLost when the connection ends, and
        ConnectionError when the call is not sent."""
        if self.leaving or self._writer.is_closing():  # what reads may not have seen the end yet
            raise ConnectionError("the daemon stops")
        number = next(self._numbers) & 0xFFFFFFFF
        answer = self._answers[number] = _Answer()
        try:
            with passage(answer.reader.spent, "", HANDOVER):
                self._writer.write(pack_frame(Kind.CALL, number, data))
                await self._writer.drain()
                await answer.done
            return answer.reader.result()
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        except OSError as error:
            raise _AnswerLost from error
        finally:
            self._answers.pop(number, None)
            self._close_when_left()

    async def close(self) -> None:
        """End it; calls in flight fail."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _cancel(self, number: int) -> None:
        if not self._writer.is_closing():
            self._writer.write(pack_frame(Kind.CANCEL, number))

    def _close_when_left(self) -> None:
        if self.leaving and not self._answers:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        error: Exception = ConnectionError("the cluster daemon has closed the connection")
        try:
            async for frame in read_frames(reader):
                if frame.kind == Kind.HELLO:
                    self.greeted.set_result(None)
                elif frame.kind == Kind.BYE:
                    self.leaving = True
                    self._close_when_left()
                elif (answer := self._answers.get(frame.number)) is not None and not answer.done.done():
                    self._take(frame, answer)
        except OSError as broken:
            error = broken
        finally:
            self.leaving = True
            self._writer.close()
            for future in (self.greeted, *(each.done for each in self._answers.values())):
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # a call that fails to write does not ask for it

    def _take(self, frame: CallFrame, answer: _Answer) -> None:
        if frame.kind == Kind.END:
            answer.done.set_result(None)
            return
        try:
            answer.reader.add(frame.data)
        except (SecmonError, AuthenticationError) as error:
            answer.done.set_exception(error)
            self._cancel(frame.number)  # of an answer that is refused here; what has ended there is not concerned


def local_failure(socket: Path) -> SecmonError:
    """Why no call gets through to the cluster daemon of this node: it does not run (3012), or does not answer (3020).

    A daemon that hangs still has its socket, and the kernel takes connections for it.
    """
    with sockets.socket(sockets.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(socket.absolute()))
        except BlockingIOError:
            pass  # so many wait already that the kernel takes no more for it
        except OSError:
            return SecmonError(3012)
    return SecmonError(3020, "the cluster daemon of this node")
