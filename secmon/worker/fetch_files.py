"""Fetches manifests and file contents from the master."""

import asyncio
import math
from collections.abc import Sequence
from functools import partial

from secmon.cluster.files.manifest_codec import from_wire, in_messages, refuse_conflicts, to_wire
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Entry, Manifest
from secmon.common.to_the_end import to_the_end
from secmon.worker.link_listener import Link
from secmon.worker.staging import StagedBatch
from secmon.worker.streams import reading_stream, replication

_BUFFER_BYTES = 1 << 20
_BUFFER_PIECES = 256


class TargetManifest:
    """The master's file set at a position of its publisher."""

    def __init__(self, epoch: str, revision: int, manifest: Manifest) -> None:
        self.epoch = epoch
        self.revision = revision
        self.manifest = manifest

    def covers(self, push: pb.FilesPush) -> bool:
        """Whether the target includes ``push``."""
        return push.position.epoch == self.epoch and push.position.revision <= self.revision

    def apply_push(self, push: pb.FilesPush, max_files: int) -> bool:
        """Apply a pushed change; return whether the result has the master's digest. If not, fetch the target.

        Raises 3045, and changes nothing, if the push has paths that may not be replicated.
        """
        if self.covers(push):
            return True  # a newer target was fetched meanwhile
        if push.position.epoch != self.epoch or not 0 < push.base <= self.revision:
            return False
        delta = from_wire(push.entries)
        manifest = self.manifest.copy()
        manifest.apply(delta)
        _check(manifest, [path for path, entry in delta.items() if entry is not None], max_files)
        if manifest.digest != push.position.digest:
            return False
        self.manifest, self.revision = manifest, push.position.revision
        return True


async def fetch_target(link: Link, target: TargetManifest | None, own: Manifest, max_files: int) -> TargetManifest:
    """Fetch the master's current file set: nothing but the position if ``target`` or ``own`` equals it, else changes.

    Raises 3045 if it has paths that may not be replicated or more than ``max_files`` files, 3023 and 3020 if the
    master cannot be reached.
    """
    known = target.manifest if target is not None else own
    request = pb.ManifestRequest(digest=known.digest)
    if target is not None:
        request.epoch, request.since = target.epoch, target.revision
    entries: dict[str, Entry | None] = {}
    position, base = pb.Position(), 0
    async with reading_stream(link) as timer:
        async for part in replication(link).FetchManifest(request):
            position, base = part.position, part.base
            entries.update(from_wire(part.entries))
            if len(entries) > 2 * max_files:  # a delta may hold as many deletions
                raise SecmonError(3045, f"more than {max_files} files")
            timer.progress()
    if position.digest == known.digest:
        return TargetManifest(position.epoch, position.revision, known.copy())
    manifest = known.copy() if base else Manifest()
    await asyncio.to_thread(_complete, manifest, entries, max_files)
    if manifest.digest != position.digest:
        raise SecmonError(3045, "the manifest does not have the announced digest")
    return TargetManifest(position.epoch, position.revision, manifest)


async def fetch_contents(link: Link, wanted: Sequence[tuple[str, Entry]], batch: StagedBatch) -> None:
    """Fill ``batch`` with the contents of ``wanted``. Threads write to the disk; memory use is a few megabytes.

    Raises 3045 if the master sends other contents, 3023 and 3020 if it cannot be reached, ``OSError`` of the disk.
    """
    stub = replication(link)
    offset = 0
    for entries in in_messages(to_wire(dict(wanted))):
        buffer: list[pb.FileChunk] = []
        size = 0
        call = stub.FetchFiles(pb.FilesRequest(entries=entries))
        try:
            async with reading_stream(link) as timer:
                async for chunk in call:
                    buffer.append(chunk)
                    size += len(chunk.data)
                    if size >= _BUFFER_BYTES or len(buffer) >= _BUFFER_PIECES:
                        await timer.pause(to_the_end(partial(batch.write, buffer, offset)))
                        buffer, size = [], 0
                    timer.progress()
        finally:
            call.cancel()  # no effect once it is complete
        await to_the_end(partial(batch.write, buffer, offset))
        offset += len(entries)


def split(wanted: Sequence[tuple[str, Entry]], *, most_bytes: int, most_files: int) -> list[list[tuple[str, Entry]]]:
    """Batches in order of size, so that small files do not wait for large ones; within the limits, or one file."""
    batches: list[list[tuple[str, Entry]]] = []
    size = math.inf
    for path, entry in sorted(wanted, key=lambda item: item[1].size):
        if size + entry.size > most_bytes or len(batches[-1]) >= most_files:
            batches.append([])
            size = 0
        batches[-1].append((path, entry))
        size += entry.size
    return batches


def _complete(manifest: Manifest, entries: dict[str, Entry | None], max_files: int) -> None:
    manifest.apply(entries)
    _check(manifest, list(manifest), max_files)


def _check(manifest: Manifest, paths: Sequence[str], max_files: int) -> None:
    if len(manifest) > max_files:
        raise SecmonError(3045, f"{len(manifest)} files, the limit is {max_files}")
    refuse_conflicts(paths, manifest)
