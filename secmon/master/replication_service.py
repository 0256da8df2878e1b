"""What workers fetch from the master: security snapshots, file manifests, file contents."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import grpc
import msgspec
from grpc import aio

from secmon.cluster.files.manifest_codec import in_messages, to_wire
from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Delta
from secmon.master.publish_files import FilePublisher
from secmon.master.serve_files import FileReader
from secmon.security.store.replication import Snapshot

READERS = 4
"""Threads that read for workers, all streams together: the disk is shared with everything else."""


Context = aio.ServicerContext[Any, Any]


class SnapshotSource(Protocol):
    """The security store, as far as this service needs it."""

    def snapshot(self) -> Snapshot: ...


class RegistrySource(Protocol):
    """The registry of agents, as far as this service needs it."""

    def changes(self, source: str, since: int) -> bytes:
        """What a copy of ``source`` at revision ``since`` lacks, as msgpack. Blocks."""


class ReplicationService(pb_grpc.ReplicationServicer):
    """Served on the cluster port. Every method streams; a slow worker costs its own stream only.

    ``authorize`` raises :class:`SecmonError` for callers that may not have the data; they get ``PERMISSION_DENIED``.
    Disk reads run on a few threads of their own and only while the stream has room, so that neither heartbeats nor
    other workers wait for a large file. :meth:`close` when the server has stopped.
    """

    def __init__(
        self,
        root: Path,
        *,
        files: FilePublisher,
        security: SnapshotSource,
        registry: RegistrySource,
        authorize: Callable[[Context], object],
    ) -> None:
        self._root = root
        self._authorize = authorize
        self._files = files
        self._security = security
        self._registry = registry
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="replication")

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def FetchSecurity(self, request: pb.SecurityRequest, context: Context) -> AsyncIterator[pb.Blob]:
        """The whole state, as pieces of one msgpack document; right for any position the worker has."""
        await self._check(context)
        document = await asyncio.get_running_loop().run_in_executor(self._readers, self._snapshot)
        for piece in _pieces(document):
            yield piece

    async def FetchRegistry(self, request: pb.RegistryRequest, context: Context) -> AsyncIterator[pb.Blob]:
        """What the asker's copy of the registry lacks, as pieces of one msgpack document."""
        await self._check(context)
        loop = asyncio.get_running_loop()
        document = await loop.run_in_executor(self._readers, self._registry.changes, request.source, request.since)
        for piece in _pieces(document):
            yield piece

    async def FetchManifest(self, request: pb.ManifestRequest, context: Context) -> AsyncIterator[pb.FileEntries]:
        """Nothing when the asker's digest is right, else the changes since its position, else everything."""
        await self._check(context)
        await self._files.ready()
        position = self._files.position()
        if request.digest == position.digest:
            yield pb.FileEntries(position=position, base=position.revision)
            return
        delta: Delta | None = self._files.changes_since(request.epoch, request.since)
        base = request.since if delta is not None else 0
        for batch in in_messages(to_wire(self._files.manifest() if delta is None else delta)):
            yield pb.FileEntries(position=position, base=base, entries=batch)

    async def FetchFiles(self, request: pb.FilesRequest, context: Context) -> AsyncIterator[pb.FileChunk]:
        """Contents, in the order asked, several files back to back. A file that is not (any more) what was asked for
        ends with ``gone``. When the worker goes away, the open file is closed with the reader's last reference."""
        await self._check(context)
        reader = FileReader(self._root, request.entries)
        loop = asyncio.get_running_loop()
        while batch := await loop.run_in_executor(self._readers, reader.next):
            for chunk in batch:
                yield chunk

    async def _check(self, context: Context) -> None:
        try:
            self._authorize(context)
        except SecmonError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))

    def _snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._security.snapshot())


def _pieces(document: bytes) -> Iterator[pb.Blob]:
    return (pb.Blob(data=document[start : start + PIECE_BYTES]) for start in range(0, len(document), PIECE_BYTES))
