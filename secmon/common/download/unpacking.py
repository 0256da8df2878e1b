"""Compressed downloads, read without trust in what they unpack to."""

import gzip
import io
import zlib
from typing import IO

from secmon.common.download.addresses import DownloadError

_GZIP = b"\x1f\x8b"


def open_unpacked(file: IO[bytes], limit: int) -> IO[bytes]:
    """The content of ``file`` from its beginning, unpacked if it is gzip.

    Reads raise DownloadError beyond ``limit`` bytes and for a damaged file; no more than a read needs is in memory.
    """
    file.seek(0)
    packed = file.read(2) == _GZIP
    file.seek(0)
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=file, mode="rb") if packed else file, limit))


class _Bounded(io.RawIOBase):
    def __init__(self, source: gzip.GzipFile | IO[bytes], limit: int) -> None:
        self._source, self._limit, self._left = source, limit, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        try:
            data = self._source.read(min(len(buffer), self._left + 1))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DownloadError(f"it is not a whole gzip file: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise DownloadError(f"it unpacks to more than {self._limit} bytes")
        buffer[: len(data)] = data
        return len(data)
