"""The security lease: until when a node may trust its copy of the security state.

The cluster daemon extends it, the API process reads it at each request. A worker's is extended at each sign of life of
the master; that of a master with a store of record at each proof that no other node has become master meanwhile.

Both processes map the same 20 bytes of ``paths.lease``: the reading of the host's boottime clock at which the lease
ends (double), the same 8 bytes combined with the id of this boot, so that neither a reading torn in the middle nor a
file from before a reboot is ever trusted, and the code of the master's refusal, 0 without one. A doubtful file counts
as run out.

What is left of a lease survives a restart of the cluster daemon. Nothing lengthens it: the boottime clock cannot be set
and goes on while the host is suspended, and an end further away than a full lease from now counts as run out.
"""

import hashlib
import mmap
import os
import struct
from pathlib import Path

from secmon.common.clock import Clock

_SIZE = 20
_TIMES = 16
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class UnlimitedLease:
    """That of a master without a store of record, and of a node without a cluster."""

    def remaining(self) -> float:
        return float("inf")

    def refusal(self) -> None:
        return None


class LeaseWriter:
    """The cluster daemon's side. A new writer goes on with what is left of the lease of the one before it."""

    def __init__(self, path: Path, clock: Clock, *, seconds: float) -> None:
        """``seconds``: of a full lease."""
        self._path, self._clock, self._seconds, self._boot = path, clock, seconds, _boot()
        self._map = self._open()
        until = _until(self._map, self._boot)
        self._write(until if until <= clock.boottime() + seconds else 0.0)
        self.refused(None)

    def _open(self) -> mmap.mmap:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            os.ftruncate(descriptor, _SIZE)
            return mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def renew(self, *, since: float) -> None:
        """A full lease from ``since`` on, a reading of the boottime clock. A lease is never shortened."""
        end = since + self._seconds
        if end > self._until:
            if not self._path.exists():  # removed under us: readers would never see this lease
                self._map.close()
                self._map = self._open()
            self._write(end)

    def refused(self, code: int | None) -> None:
        """Why the master does not let the node in; ``None``: it did."""
        self._map[_TIMES:_SIZE] = struct.pack("=I", code or 0)

    def expire(self) -> None:
        """End the lease now."""
        self._write(0.0)

    def close(self) -> None:
        self._map.close()

    def _write(self, until: float) -> None:
        self._until = until
        first = struct.pack("=d", until)
        self._map[:_TIMES] = first + _mix(first, self._boot)


class LeaseReader:
    """The API process's side; :class:`secmon.cluster.node.Lease`. Follows a file that is made later, or made again."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock, self._boot = path, clock, _boot()
        self._map: mmap.mmap | None = None
        self._file: tuple[int, int] | None = None

    def remaining(self) -> float:
        """Seconds left; 0 when the lease has run out or cannot be read."""
        self._follow()
        return 0.0 if self._map is None else max(0.0, _until(self._map, self._boot) - self._clock.boottime())

    def refusal(self) -> int | None:
        """Code with which the master refused this node last, until it lets it in."""
        self._follow()
        return struct.unpack("=I", self._map[_TIMES:_SIZE])[0] or None if self._map is not None else None

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        self._map = self._file = None

    def _follow(self) -> None:
        """Map the file that has the name now."""
        try:
            status = os.stat(self._path)
            if (status.st_dev, status.st_ino) == self._file and self._map is not None:
                return
            self.close()
            with open(self._path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), _SIZE, prot=mmap.PROT_READ)
            self._file = status.st_dev, status.st_ino
        except (OSError, ValueError):  # absent, not readable, or shorter than a lease
            self.close()


def _until(lease: mmap.mmap, boot: bytes) -> float:
    """The end of the lease by the boottime clock; 0 when the file is doubtful."""
    data = lease[:_TIMES]
    if _mix(data[:8], boot) != data[8:]:
        return 0.0
    until: float = struct.unpack("=d", data[:8])[0]
    return until


def _mix(first: bytes, boot: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(first, boot, strict=True))


def _boot() -> bytes:
    return hashlib.sha256(_BOOT_ID.read_bytes()).digest()[:8]
