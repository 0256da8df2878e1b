"""The socket at which the daemons of a node hand their calls to its cluster daemon."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from google.protobuf.message import DecodeError

from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.local_frames import CallFrame, Kind, pack_frame, read_frames, unpack_seconds
from secmon.cluster.rpc.wire import pack_failure
from secmon.common.clock import Clock
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.ipc.unix_listener import UnixListener

log = logging.getLogger("secmon.clusterd.local")

MAX_SOCKET_PATH = 106
"""Bytes of a socket's path: the kernel takes 107, and the socket is made under a name that is one longer."""
CANCEL_SECONDS = 5.0
"""Time for cancelled calls to end when the socket is closed."""
LEAVE_SECONDS = 1.0
"""Time for callers to close their connections: what they have sent until then is answered."""


class LocalServer:
    """Answers the calls of a node's own daemons. Processes that may open the socket are trusted: its mode is 0660."""

    def __init__(self, path: Path, service: CallService, clock: Clock) -> None:
        """Raises ConfigError when the installation folder's path is too long for a socket."""
        if len(bytes(path.absolute())) > MAX_SOCKET_PATH:
            raise ConfigError(
                str(path), "installation folder", str(path), f"at most {MAX_SOCKET_PATH} bytes with the socket's name"
            )
        self._service = service
        self._clock = clock
        self._listener = UnixListener(path, self._converse)
        self._calls: set[asyncio.Task[None]] = set()
        self._connections: dict[asyncio.StreamWriter, asyncio.Future[None]] = {}
        self._stopping = False

    async def open(self) -> None:
        """Listen. Raises OSError."""
        await self._listener.open()

    async def tend(self) -> None:
        """Listen again when the socket was removed from its folder. Raises OSError."""
        await self._listener.tend()

    async def stop(self, grace: float) -> None:
        """Refuse new calls (3012), finish those in flight within ``grace`` seconds, close the connections."""
        self._stopping = True
        self._service.refuse()
        self._listener.close()
        for writer in self._connections:
            writer.write(pack_frame(Kind.BYE, 0))
        if self._calls:
            await asyncio.wait(self._calls, timeout=grace)
        if late := set(self._calls):
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=CANCEL_SECONDS)
        elif self._connections:
            await asyncio.wait(self._connections.values(), timeout=LEAVE_SECONDS)
        for writer in list(self._connections):
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. Its calls end with it."""
        calls: dict[int, asyncio.Task[None]] = {}
        left = self._connections[writer] = asyncio.get_running_loop().create_future()
        try:
            writer.write(pack_frame(Kind.HELLO, 0))
            if self._stopping:
                writer.write(pack_frame(Kind.BYE, 0))
            async for frame in read_frames(reader):
                if frame.kind == Kind.CALL:
                    self._begin(frame, writer, calls)
                elif frame.kind == Kind.CANCEL and frame.number in calls:
                    calls[frame.number].cancel()
        except OSError as error:
            log.debug("connection lost: %s", error)
        finally:
            del self._connections[writer]
            left.set_result(None)
            for task in calls.values():
                task.cancel()
            writer.close()

    def _begin(self, frame: CallFrame, writer: asyncio.StreamWriter, calls: dict[int, asyncio.Task[None]]) -> None:
        task = calls[frame.number] = asyncio.create_task(self._answer(frame, writer))
        self._calls.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            del calls[frame.number]
            self._calls.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("A call has failed.", exc_info=error)

        task.add_done_callback(ended)

    async def _answer(self, frame: CallFrame, writer: asyncio.StreamWriter) -> None:
        """Send the chunks of the answer, the last one together with the end."""
        waiting = b""
        async with aclosing(self._chunks(frame)) as chunks:
            async for chunk in chunks:
                if waiting:
                    writer.write(waiting)
                    await writer.drain()
                waiting = pack_frame(Kind.CHUNK, frame.number, chunk)
        writer.write(waiting + pack_frame(Kind.END, frame.number))

    async def _chunks(self, frame: CallFrame) -> AsyncGenerator[bytes, None]:
        try:
            seconds, data = unpack_seconds(frame.data)
            request = pb.ExecuteRequest.FromString(data)
        except (ConnectionError, DecodeError) as error:
            yield pack_failure(SecmonError(3036, str(error)))
            return
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        async with aclosing(self._service.answer(request, deadline)) as chunks:
            async for chunk in chunks:
                yield chunk
