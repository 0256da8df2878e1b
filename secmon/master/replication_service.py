"""The Replication service: security snapshots, registry changes, file manifests and file contents for workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc
import msgspec
from grpc import aio
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.files.manifest_codec import in_messages, to_wire
from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Delta
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import storage_reason
from secmon.master import generation_2
from secmon.master.publish_files import FilePublisher
from secmon.master.serve_files import FileReader
from secmon.master.worker_session import Caller
from secmon.security.store.replication import Snapshot

log = logging.getLogger("secmon.clusterd.replication")

READERS = 4
"""Threads that read for all streams together, so that replication leaves the disk to others too."""


Context = aio.ServicerContext[Any, Any]


class SnapshotSource(Protocol):
    """The security store, as this service uses it."""

    def snapshot(self) -> Snapshot: ...


class RegistrySource(Protocol):
    """The registry of agents, as this service uses it."""

    def changes(self, source: str, since: int) -> bytes:
        """Changes of ``source`` after revision ``since``, or the whole registry, as msgpack. Blocks."""


class ReplicationService(pb_grpc.ReplicationServicer):
    """Served on the cluster port. Every method streams, so a slow worker delays its own stream only.

    ``authorize`` raises :class:`SecmonError` for callers that may not have the data; they get ``PERMISSION_DENIED``.
    The disk is read by separate threads, and only while the stream has room: neither heartbeats nor other workers wait
    for a large file. Call :meth:`close` when the server has stopped.
    """

    def __init__(
        self,
        root: Path,
        *,
        files: FilePublisher,
        security: SnapshotSource,
        registry: RegistrySource,
        authorize: Callable[[Context], Caller],
    ) -> None:
        self._root = root
        self._authorize = authorize
        self._files = files
        self._security = security
        self._registry = registry
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="replication")
        self._security_trouble, self._registry_trouble = (
            FailureLog(log, f"{what} cannot be sent to workers", f"{what} is sent to workers again")
            for what in ("the security state", "the registry of agents")
        )

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def FetchSecurity(self, request: pb.SecurityRequest, context: Context) -> AsyncIterator[pb.Blob]:
        """The whole state, as pieces of one msgpack document; valid for any position of the worker."""
        session = await self._check(context)
        snapshot = partial(self._snapshot, session.protocol)
        document = await self._read(snapshot, self._security_trouble, context)
        for piece in _pieces(document):
            yield piece

    async def FetchRegistry(self, request: pb.RegistryRequest, context: Context) -> AsyncIterator[pb.Blob]:
        """What the worker's replica of the registry lacks, as pieces of one msgpack document."""
        await self._check(context)
        changes = partial(self._registry.changes, request.source, request.since)
        document = await self._read(changes, self._registry_trouble, context)
        for piece in _pieces(document):
            yield piece

    async def FetchManifest(self, request: pb.ManifestRequest, context: Context) -> AsyncIterator[pb.FileEntries]:
        """No entries if the worker's digest is current, else the changes since its position or, if unknown, all."""
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
        """Contents of the requested files, in the order of the request. A file that no longer has the requested content
        ends with ``gone``. If the worker disconnects, the open file is closed with the reader's last reference."""
        await self._check(context)
        reader = FileReader(self._root, request.entries)
        loop = asyncio.get_running_loop()
        while batch := await loop.run_in_executor(self._readers, reader.next):
            for chunk in batch:
                yield chunk

    async def _check(self, context: Context) -> Caller:
        try:
            return self._authorize(context)
        except SecmonError as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))

    async def _read(self, read: Callable[[], bytes], trouble: FailureLog, context: Context) -> bytes:
        """What ``read`` finds in a store. A store that fails is logged once, however often workers try again."""
        try:
            document = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        except (OSError, SQLAlchemyError) as error:
            trouble.failed(storage_reason(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the master cannot read it: {storage_reason(error)}")
        trouble.succeeded()
        return document

    def _snapshot(self, protocol: int) -> bytes:
        snapshot = self._security.snapshot()
        if protocol <= generation_2.GENERATION:
            snapshot = generation_2.known_snapshot(snapshot)
        return msgspec.msgpack.encode(snapshot)


def _pieces(document: bytes) -> Iterator[pb.Blob]:
    return (pb.Blob(data=document[start : start + PIECE_BYTES]) for start in range(0, len(document), PIECE_BYTES))
