"""Reads the master's files for a worker, in pieces, and verifies that they have the requested content."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.files.categories import checked
from secmon.common.files.tree import content_hash, open_file, opened_folder

_BATCH_BYTES = 1 << 20
_BATCH_PIECES = 256


class FileReader:
    """The pieces of the files of one request. :meth:`next` blocks on the disk: call it in a thread."""

    def __init__(self, root: Path, wanted: Sequence[pb.FileEntry]) -> None:
        self._pieces = _pieces(root, wanted)

    def next(self) -> list[pb.FileChunk]:
        """Up to a megabyte of pieces; empty at the end."""
        batch: list[pb.FileChunk] = []
        size = 0
        for piece in self._pieces:
            batch.append(piece)
            size += len(piece.data)
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_PIECES:
                break
        return batch


def _pieces(root: Path, wanted: Sequence[pb.FileEntry]) -> Iterator[pb.FileChunk]:
    for index, entry in enumerate(wanted):
        try:
            checked(entry.path)
            yield from _file(root, index, entry)
        except (OSError, SecmonError):
            yield pb.FileChunk(index=index, gone=True)


def _file(root: Path, index: int, entry: pb.FileEntry) -> Iterator[pb.FileChunk]:
    """All pieces of one file, the final one ``last``, or ``gone`` if the content is not the requested one."""
    folder, _, name = entry.path.rpartition("/")
    with opened_folder(root, folder) as parent:
        descriptor = open_file(parent, name)
    try:
        if os.fstat(descriptor).st_size != entry.size:
            raise FileNotFoundError(entry.path)
        digest = content_hash()
        left = entry.size
        while left > PIECE_BYTES:
            data = os.read(descriptor, PIECE_BYTES)
            if not data:
                raise FileNotFoundError(entry.path)
            digest.update(data)
            left -= len(data)
            yield pb.FileChunk(index=index, data=data)
        data = os.read(descriptor, left) if left else b""
        digest.update(data)
        if len(data) != left or digest.digest() != entry.hash:
            raise FileNotFoundError(entry.path)
        yield pb.FileChunk(index=index, data=data, last=True)
    finally:
        os.close(descriptor)
