"""Encodes manifests for messages, and decodes and validates received ones."""

from collections.abc import Iterable, Iterator, Mapping

from secmon.cluster.rpc.flow_control import PIECE_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.files.categories import checked
from secmon.common.files.manifest import Delta, Entry, Manifest

HASH_SIZE = 32


def to_wire(delta: Delta) -> Iterator[pb.FileEntry]:
    for path, entry in delta.items():
        if entry is None:
            yield pb.FileEntry(path=path)
        else:
            yield pb.FileEntry(path=path, hash=entry.hash, size=entry.size)


def in_messages(entries: Iterable[pb.FileEntry]) -> Iterator[list[pb.FileEntry]]:
    """Split ``entries`` into lists for messages of about ``PIECE_BYTES``; at least one list."""
    batch: list[pb.FileEntry] = []
    size = 0
    for entry in entries:
        if size > PIECE_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.ByteSize()
    yield batch


def from_wire(entries: Iterable[pb.FileEntry]) -> dict[str, Entry | None]:
    """Decode received entries. Raises 3045, for all of them, if any path or hash is not allowed."""
    delta: dict[str, Entry | None] = {}
    for item in entries:
        checked(item.path)
        if item.hash and len(item.hash) != HASH_SIZE:
            raise SecmonError(3045, f"hash of {item.path!r} has {len(item.hash)} bytes")
        delta[item.path] = Entry(item.hash, item.size) if item.hash else None
    return delta


def refuse_conflicts(paths: Iterable[str], manifest: Manifest | Mapping[str, Entry]) -> None:
    """Raise 3045 if one of ``paths`` is below a file."""
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in manifest:
                raise SecmonError(3045, f"{parent!r} is both a file and a folder")
            parent = parent.rpartition("/")[0]
