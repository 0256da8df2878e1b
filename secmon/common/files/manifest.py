"""The manifest of a set of replicated files: path to content hash and size, with one digest."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_MODULUS = 1 << 256


class Entry(NamedTuple):
    """Content of one file: BLAKE2b-256 (32 bytes) and size in bytes."""

    hash: bytes
    size: int


Delta = Mapping[str, Entry | None]
"""Paths to their new content; None: the file is gone."""


class Difference(NamedTuple):
    """Differences from another set, in the classes of cluster.md 4.2.3."""

    missing: dict[str, Entry]
    shared: dict[str, Entry]
    extra: list[str]

    @property
    def empty(self) -> bool:
        return not (self.missing or self.shared or self.extra)


def _weight(path: str, entry: Entry) -> int:
    digest = hashlib.blake2b(entry.hash, digest_size=32)
    digest.update(entry.size.to_bytes(8, "big"))
    digest.update(path.encode())
    return int.from_bytes(digest.digest(), "big")


class Manifest:
    """Path below the installation folder to :class:`Entry`.

    The digest is the sum of the entries' own hashes modulo 2**256: it does not depend on their order, and a change of
    some entries costs some hashes, however many files there are. It detects loss and damage, not forgery:
    against that there are each file's own hash and mutual TLS.
    """

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self._entries: dict[str, Entry] = dict(entries or {})
        self._sum = sum(_weight(path, entry) for path, entry in self._entries.items()) % _MODULUS

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, path: str) -> Entry | None:
        return self._entries.get(path)

    def entries(self) -> dict[str, Entry]:
        """A copy, to keep."""
        return dict(self._entries)

    def copy(self) -> "Manifest":
        twin = Manifest()
        twin._entries, twin._sum = dict(self._entries), self._sum
        return twin

    @property
    def digest(self) -> str:
        """64 hexadecimal digits; equal for equal sets."""
        return f"{self._sum:064x}"

    def put(self, path: str, entry: Entry | None) -> bool:
        """Set or (None) remove one file; return whether that changed anything."""
        old = self._entries.get(path)
        if old == entry:
            return False
        if old is not None:
            self._sum -= _weight(path, old)
        if entry is None:
            del self._entries[path]
        else:
            self._entries[path] = entry
            self._sum += _weight(path, entry)
        self._sum %= _MODULUS
        return True

    def apply(self, delta: Delta) -> None:
        for path, entry in delta.items():
            self.put(path, entry)

    def difference(self, wanted: "Manifest") -> Difference:
        """What to create, overwrite and delete in this set to get ``wanted``."""
        missing, shared = {}, {}
        for path, entry in wanted._entries.items():
            own = self._entries.get(path)
            if own is None:
                missing[path] = entry
            elif own != entry:
                shared[path] = entry
        return Difference(missing, shared, [path for path in self._entries if path not in wanted._entries])
