"""How large the directory of a zip archive is, which ``zipfile`` reads into memory as a whole (APPNOTE 4.3.14-16)."""

import os
from typing import IO

_END, _END_BYTES, _MOST_COMMENT = b"PK\x05\x06", 22, 0xFFFF
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_END_64, _END_64_BYTES = b"PK\x06\x06", 56


def directory_bytes(file: IO[bytes]) -> int:
    """Bytes of the directory as the end of the archive states them; 0 where there is no such end.

    The end is looked for as ``zipfile`` does it, so that an archive cannot show one to each. Raises OSError.
    """
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END_BYTES - _MOST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = len(tail) - _END_BYTES
    if not (at >= 0 and tail.startswith(_END, at) and tail.endswith(b"\0\0")):
        at = tail.rfind(_END)
    if at < 0:
        return 0
    found = [_number(tail[at + 12 : at + 16])]
    locator = tail[at - _LOCATOR_BYTES : at] if at >= _LOCATOR_BYTES else b""
    if locator.startswith(_LOCATOR):
        places = (start + at - _LOCATOR_BYTES - _END_64_BYTES, _number(locator[8:16]))
        found += [_bytes_64(file, place) for place in places if 0 <= place < size]
    return max(found)


def _bytes_64(file: IO[bytes], place: int) -> int:
    file.seek(place)
    record = file.read(_END_64_BYTES)
    return _number(record[40:48]) if record.startswith(_END_64) else 0


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")
